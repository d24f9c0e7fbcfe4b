package schemas

import "slices"

// Sampling is a server's wish, in the middle of a call, for words of the thread's model (MCP specification, Sampling). It is on
// behalf of the member whose call it is, who said yes to exactly this.
type Sampling struct {
	Caller    Caller          `json:"-"`
	Server    string          `json:"-"`
	System    string          `json:"system,omitempty"`
	Messages  []SamplingWords `json:"messages"` // the last one is the user's
	MaxTokens int             `json:"maxTokens"`
}

// SamplingWords is one message of a Sampling: plain text, cleaned.
type SamplingWords struct {
	Role string `json:"role"` // "user" or "assistant"
	Text string `json:"text"`
}

// Sampled is what the model answered.
type Sampled struct {
	Text  string
	Model string // as Model.Name
	Cut   bool   // at MaxTokens
}

// Samples reports whether a server may ask for words of the model; its member is asked each time.
func (p Policy) Samples(server string) bool {
	return slices.ContainsFunc(p.Sampling, func(pattern string) bool { return glob(pattern, server) })
}
