package link

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"bobbin/agent"
)

// failure is what went wrong, and whether to ask again.
type failure struct {
	agent.Failure
	again  bool
	broken bool          // after a first piece, it means that the stream was cut
	after  time.Duration // what the provider asks for; 0 = nothing
}

// ErrCut is what once returns when a stream ended without its end.
var ErrCut = errors.New("the stream ended early")

// ErrGarbled is what once returns when a stream makes no sense.
var ErrGarbled = errors.New("the stream makes no sense")

// ErrMisshapen is what once returns when the model failed to form its answer; another time it may not.
var ErrMisshapen = errors.New("the model's answer has no form")

// words puts an error in words. No text of the SDK or of the system gets through: either may hold what nobody should see.
func (l *Link) words(err error, model string) *failure {
	var refusal *Refusal
	var limit *limitError
	switch {
	case errors.As(err, &limit):
		return say(limit.what, "ask for less at once")
	case errors.Is(err, errFlood):
		return say(l.o.Name+" sent more than bobbin reads", "ask for less at once")
	case errors.As(err, &refusal):
		return l.refusal(refusal, model)
	}
	f := say("", "")
	f.broken, f.again, f.Err = true, true, &told{text: l.quote(err.Error(), 300)}
	switch {
	case errors.Is(err, errSlowHeader):
		f.Text, f.Hint = l.o.Name+" did not begin to answer within 2 minutes", "try again"
	case errors.Is(err, errSlowChunk):
		f.Text, f.Hint, f.again = l.o.Name+" sent nothing for 5 minutes", "try again", false
	case errors.Is(err, ErrCut), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Text, f.Hint = "the connection to "+l.o.Name+" broke off", "try again"
	case errors.Is(err, ErrMisshapen):
		f.Text, f.Hint = printable(model, 100)+" did not manage to form its answer", "say it again, or choose another model with /chat model"
	case errors.Is(err, ErrGarbled):
		f.Text, f.Hint = l.o.Name+" sent something that is no answer", "the operator checks the base URL "+l.host
	default:
		l.unreachable(err, f)
	}
	return f
}

// unreachable is about a host to which there is no connection.
func (l *Link) unreachable(err error, f *failure) {
	var dns *net.DNSError
	var op *net.OpError
	f.Text, f.Hint = "the connection to "+l.o.Name+" failed", "try again; the operator checks the way to "+l.host
	switch {
	case refusedConnection(err):
		f.again = false
		f.Text = l.o.Name + " does not answer at " + l.host
		f.Hint = "the operator checks that it runs there"
		if l.o.Start != "" {
			f.Hint = "start it: " + l.o.Start
		}
	case errors.As(err, &dns):
		f.again = dns.IsTemporary || dns.IsTimeout
		f.Text, f.Hint = "there is no host "+printable(dns.Name, 100), "the operator checks the base URL and the network"
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, context.DeadlineExceeded):
		f.Text, f.Hint = l.o.Name+" cannot be reached at "+l.host, "the operator checks the network"
	case strings.Contains(err.Error(), "x509") || strings.Contains(err.Error(), "tls:"):
		f.again = false
		f.Text, f.Hint = l.o.Name+" has no certificate that bobbin trusts at "+l.host, "the operator checks the base URL and the time of this machine"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		f.again = false
		f.Text, f.Hint = l.host+" speaks http, not https", "the operator changes the base URL"
	}
}

func refusedConnection(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.Errno(10061)) // WSAECONNREFUSED
}

// said is what a provider says of a mistake, in whichever of the known forms.
type said struct {
	kind string // "invalid_request_error", "RESOURCE_EXHAUSTED", …
	code string // "context_length_exceeded", or a number
	text string
	any  bool   // it says something
	all  string // the text, and the details, in lower case, for searching
	wait time.Duration
}

func readSaid(body []byte) (s said) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	if json.Unmarshal(body, &outer) != nil {
		return s
	}
	var inner struct {
		Type, Status, Message string
		Code                  any
		Details               []struct{ RetryDelay, Reason string }
		Metadata              struct{ Raw string }
	}
	var plain string
	switch {
	case json.Unmarshal(outer.Error, &plain) == nil && plain != "":
		inner.Message = plain
	case len(outer.Error) > 0 && string(outer.Error) != "null":
		// A field of an unexpected type leaves the others as they are.
		_ = json.Unmarshal(outer.Error, &inner)
	case outer.Message != "":
		inner.Message, inner.Type = outer.Message, outer.Type
	case json.Unmarshal(outer.Detail, &plain) == nil:
		inner.Message = plain
	}
	s.kind, s.text = inner.Type+inner.Status, inner.Message
	s.any = inner.Message != "" || len(outer.Error) > 0 && string(outer.Error) != "null"
	switch c := inner.Code.(type) {
	case string:
		s.code = c
	case float64:
		s.code = json.Number(strings.TrimSuffix(trimFloat(c), ".0")).String()
	}
	for _, d := range inner.Details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			s.wait = wait
		}
	}
	if outer.Error == nil {
		outer.Error = []byte(inner.Message)
	}
	s.all = strings.ToLower(inner.Message + " " + inner.Metadata.Raw + " " + string(outer.Error))
	return s
}

func trimFloat(f float64) string {
	b, _ := json.Marshal(f)
	return string(b)
}

// tooLong holds how the providers and servers say that a conversation does not fit.
var tooLong = []string{
	"prompt is too long", "exceed context limit", "request_too_large", // Anthropic
	"context_length_exceeded", "maximum context length", "reduce the length of the messages", // OpenAI, vLLM, OpenRouter
	"exceeds the maximum number of tokens", "input token count", // Gemini
	"exceed_context_size", "exceeds the available context size", // llama.cpp
	"exceeds the context length", "exceeds the maximum context", "exceeds the context window", "context window exceed", "longer than the model's context", // Ollama, others
}

func (l *Link) refusal(r *Refusal, model string) *failure {
	s := readSaid(r.Body)
	status := r.Status
	if status == 0 || status < 300 && s.any {
		status = l.statusOf(s)
	}
	f := l.known(status, s, model)
	f.Err = &told{status: status, text: l.quote(s.text, 300)}
	f.broken = true
	if after, ok := after(r.Header, time.Now()); ok {
		f.after = after
	} else if s.wait > 0 {
		f.after = s.wait
	}
	return f
}

// told is for the operator's log.
type told struct {
	status int
	text   string
}

func (t *told) Error() string {
	if t.status == 0 {
		return t.text
	}
	return strconv.Itoa(t.status) + ": " + t.text
}

// statusOf is the status that an error inside a stream would have had.
func (l *Link) statusOf(s said) int {
	var status int
	if json.Unmarshal([]byte(s.code), &status) == nil && status >= 300 && status < 600 {
		return status
	}
	for _, k := range []string{s.code, s.kind} {
		switch {
		case k == "overloaded_error", k == "UNAVAILABLE":
			return 529
		case k == "rate_limit_error", k == "RESOURCE_EXHAUSTED", k == "rate_limit_exceeded", k == "insufficient_quota":
			return http.StatusTooManyRequests
		case k == "authentication_error", k == "UNAUTHENTICATED", k == "invalid_api_key":
			return http.StatusUnauthorized
		case k == "permission_error", k == "PERMISSION_DENIED":
			return http.StatusForbidden
		case k == "not_found_error", k == "NOT_FOUND", k == "model_not_found":
			return http.StatusNotFound
		case strings.HasPrefix(k, "invalid_"), k == "INVALID_ARGUMENT", k == "billing_error", k == "context_length_exceeded", strings.Contains(k, "policy"):
			return http.StatusBadRequest
		}
	}
	return http.StatusInternalServerError
}

// known tells the mistakes apart: first by what they say, because the providers' statuses differ, then by the status.
func (l *Link) known(status int, s said, model string) *failure {
	name, has := l.o.Name, func(texts ...string) bool { return containsAny(s.all, texts) }
	client := status >= 400 && status < 500
	switch {
	case (client || status == 500) && has(tooLong...), status == http.StatusRequestEntityTooLarge:
		f := say("the conversation does not fit into "+model, "begin a new one with /chat reset, or choose a model with a larger window")
		f.TooLong = true
		return f
	case status == 401, client && has("api key not valid", "api_key_invalid", "api key expired", "invalid_api_key", "invalid x-api-key"):
		return say(name+" refuses the key", l.checkKey())
	case status == 402, client && has("insufficient_quota", "credit balance is too low", "billing_error", "billing_hard_limit", "insufficient credits", "credits are depleted"):
		return say("there is no credit left at "+name, "the operator adds some there")
	case client && has("content_filter", "content_policy", "policy_violation", "content filtering policy", "responsible_ai", "content management policy", "prohibited_content"):
		return say(name+"'s filter refuses this", "say it in another way")
	case status == 404 && !has("model", "no endpoints found"):
		return say("there is no API for models at "+l.o.BaseURL, "the operator checks the base URL; many end in /v1")
	case status == 404, client && has("model_not_found", "is not a valid model", "unknown model", "no such model", "does not exist or you do not have access"):
		return say(name+" has no model "+printable(model, 100), l.otherModel(model))
	case status == 403 && !s.any: // a wall before it, more often than itself
		return say(name+" does not let bobbin in", "the operator checks the key and the network")
	case status == 403:
		return say(name+" does not allow this key to use "+printable(model, 100), l.checkKey())
	case status == 429 && has("perday", "per day"):
		return say("today's allowance at "+name+" is used up", "try again tomorrow, or the operator raises it there")
	case client && has("does not support tools", "tool use is not supported", "no endpoints found that support tool use"):
		return say(printable(model, 100)+" cannot use tools", "choose another model with /chat model")
	case client && has("does not support image", "image input is not supported", "no endpoints found that support image", "image_url is only supported", "not a multimodal model"):
		return say(printable(model, 100)+" cannot look at images", "leave them out, or choose another model with /chat model")
	}
	return l.byStatus(status, s)
}

func (l *Link) byStatus(status int, s said) *failure {
	name := l.o.Name
	f := say("", "try again later")
	f.again = true
	switch {
	case status == 429:
		f.Text = name + " takes no more requests just now"
	case status == 529, status == 503:
		f.Text = name + " is overloaded"
	case status == 408, status == 409:
		f.Text = name + " did not take the request"
	case status >= 500:
		f.Text = name + " failed by itself"
		if s.text != "" {
			f.Text += ": " + l.quote(s.text, 200)
		}
	case status < 300:
		return say(name+" answers with a page or text where an answer should stream", "the operator checks the base URL "+l.host)
	case status < 400:
		return say(name+" sends requests on to another address", "the operator checks the base URL "+l.host)
	case s.text != "":
		return say(name+" does not take the request: "+l.quote(s.text, 300), "")
	default:
		return say(name+" does not take the request", "the operator checks the base URL "+l.host)
	}
	return f
}

func (l *Link) checkKey() string {
	if l.o.KeyName == "" {
		return "the operator checks whether it wants a key"
	}
	return "the operator checks " + l.o.KeyName
}

func (l *Link) otherModel(model string) string {
	if strings.HasPrefix(l.o.Start, "ollama") {
		return "fetch it: ollama pull " + printable(model, 100)
	}
	return "choose another with /chat model"
}

func say(text, hint string) *failure {
	return &failure{Failure: agent.Failure{Text: text, Hint: hint}}
}

func containsAny(s string, texts []string) bool {
	for _, t := range texts {
		if strings.Contains(s, t) {
			return true
		}
	}
	return false
}

// quote is what a provider says, as part of a sentence, without the key.
func (l *Link) quote(s string, most int) string {
	if key := l.Key(); key != "" {
		s = strings.ReplaceAll(s, key, "***")
	}
	s = regexp.MustCompile(`\b(sk|AIza|pk|key|gsk|xai)[-_A-Za-z0-9*.]{12,}`).ReplaceAllString(s, "***")
	s = regexp.MustCompile(`(?i)\bbearer\s+\S+`).ReplaceAllString(s, "***")
	return strings.TrimRight(printable(s, most), " .")
}

// printable is one line of at most so many runes.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}
