//lint:file-ignore ST1005 the words are the provider's own

package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Gemini plays the Gemini API, v1beta. The first call of an answer and the end of its text are signed, and the signatures have
// to come back in the same parts.
func Gemini(t testing.TB, script ...Answer) *Server { return start(t, gemini{}, "", script) }

type gemini struct{}

var _ api = gemini{}

type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction *geminiContent  `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	GenerationConfig *struct {
		MaxOutputTokens int `json:"maxOutputTokens"`
		ThinkingConfig  *struct {
			IncludeThoughts bool `json:"includeThoughts"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Image     *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Response *struct {
			Output string `json:"output"`
			Error  string `json:"error"`
		} `json:"response"`
	} `json:"functionResponse"`
}

func (gemini) kind() string { return "text/event-stream" }

var (
	geminiPath = regexp.MustCompile(`\A/v1beta/models/([a-z0-9.-]+):streamGenerateContent\z`)
	geminiName = regexp.MustCompile(`\A[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\z`)
)

func (a gemini) check(r *http.Request, body []byte, m *memo) (asked Asked, err error) {
	path := geminiPath.FindStringSubmatch(r.URL.Path)
	switch {
	case r.Method != http.MethodPost || path == nil || r.URL.RawQuery != "alt=sse":
		return asked, fmt.Errorf("no such method: %s %s", r.Method, r.URL)
	case r.Header.Get("X-Goog-Api-Key") != Key:
		return asked, &wrong{BadKey, "API key not valid. Please pass a valid API key."}
	}
	asked.Model = path[1]
	var q geminiRequest
	if err := strict("Invalid JSON payload received. Unknown name", body, &q); err != nil {
		return asked, err
	}
	switch {
	case len(q.Contents) == 0:
		return asked, fmt.Errorf("GenerateContentRequest.contents: contents is not specified")
	case q.GenerationConfig != nil && q.GenerationConfig.ThinkingConfig != nil && strings.HasPrefix(asked.Model, "gemini-2.0"):
		return asked, fmt.Errorf("Thinking is not enabled for models/%s", asked.Model)
	}
	if s := q.SystemInstruction; s != nil {
		if len(s.Parts) != 1 || s.Parts[0].Text == nil || *s.Parts[0].Text == "" {
			return asked, fmt.Errorf("GenerateContentRequest.system_instruction: must have a text")
		}
		asked.System = *s.Parts[0].Text
	}
	for _, t := range q.Tools {
		for i, f := range t.FunctionDeclarations {
			var top struct{ Type string }
			if !geminiName.MatchString(f.Name) || slices.Contains(asked.Tools, f.Name) {
				return asked, fmt.Errorf("GenerateContentRequest.tools[0].function_declarations[%d].name: Invalid function name or duplicate: %s", i, f.Name)
			}
			if json.Unmarshal(f.Schema, &top) != nil || top.Type != "object" || validSchema(f.Schema) != nil {
				return asked, fmt.Errorf("GenerateContentRequest.tools[0].function_declarations[%d].parameters_json_schema: invalid", i)
			}
			asked.Tools = append(asked.Tools, f.Name)
		}
	}
	return asked, a.conversation(q, &asked, m)
}

func (a gemini) conversation(q geminiRequest, asked *Asked, m *memo) error {
	var open []string
	for i, c := range q.Contents {
		where := fmt.Sprintf("contents[%d]", i)
		switch {
		case c.Role != [2]string{"user", "model"}[i%2]:
			return fmt.Errorf("Please ensure that multiturn requests alternate between user and model. %s is %q", where, c.Role)
		case len(c.Parts) == 0:
			return fmt.Errorf("GenerateContentRequest.%s.parts: contents.parts must not be empty.", where)
		}
		var err error
		if c.Role == "model" {
			open, err = a.model(where, c.Parts, asked.Model, m)
		} else {
			err = a.user(where, c.Parts, open, asked)
			open = nil
		}
		if err != nil {
			return err
		}
	}
	if len(q.Contents)%2 == 0 {
		return fmt.Errorf("Please ensure that single turn requests end with a user role or the role field is empty.")
	}
	return nil
}

func (gemini) user(where string, parts []geminiPart, open []string, asked *Asked) error {
	asked.Results = nil
	n, over := 0, false
	for j, p := range parts {
		at := fmt.Sprintf("%s.parts[%d]", where, j)
		switch {
		case p.Signature != "" || p.Thought || p.Call != nil:
			return fmt.Errorf("%s: not of a user", at)
		case p.Result != nil:
			if over || n >= len(open) || open[n] != p.Result.ID+"/"+p.Result.Name || p.Result.Response == nil {
				return fmt.Errorf("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn. %s", at)
			}
			n++
			asked.Results = append(asked.Results, p.Result.Response.Output+p.Result.Response.Error)
		case p.Image != nil:
			over = true
			data, err := base64.StdEncoding.DecodeString(p.Image.Data)
			if err != nil || len(data) == 0 || !strings.HasPrefix(p.Image.MIME, "image/") {
				return fmt.Errorf("%s.inline_data: invalid", at)
			}
			asked.Images++
		case p.Text != nil && *p.Text != "":
			over = true
			asked.Text = *p.Text
		default:
			return fmt.Errorf("%s.data: required oneof field 'data' must have one initialized field", at)
		}
	}
	if n != len(open) {
		return fmt.Errorf("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn. %s", where)
	}
	return nil
}

func (gemini) model(where string, parts []geminiPart, model string, m *memo) (open []string, err error) {
	for j, p := range parts {
		at := fmt.Sprintf("%s.parts[%d]", where, j)
		what := ""
		switch {
		case p.Call != nil:
			if !geminiName.MatchString(p.Call.Name) || len(p.Call.Args) > 0 && p.Call.Args[0] != '{' {
				return nil, fmt.Errorf("%s.function_call: invalid", at)
			}
			what = "call " + p.Call.Name + canon(p.Call.Args)
			if len(open) == 0 && p.Signature == "" && strings.HasPrefix(model, "gemini-3") {
				return nil, fmt.Errorf("Function call `%s` in the %s. content block is missing a `thought_signature`.", p.Call.Name, where)
			}
			open = append(open, p.Call.ID+"/"+p.Call.Name)
			if want := m.ofCall(what + p.Call.ID); want != "" && want != p.Signature {
				return nil, fmt.Errorf("%s: thought_signature was lost", at)
			}
		case p.Text != nil || p.Signature != "":
			if p.Text != nil {
				what = "text " + *p.Text
			} else {
				what = "text "
			}
		default:
			return nil, fmt.Errorf("%s.data: required oneof field 'data' must have one initialized field", at)
		}
		if s := p.Signature; s != "" && s != "skip_thought_signature_validator" && m.signed(s) != model+"\n"+what {
			return nil, fmt.Errorf("Corrupted thought signature. %s", at)
		}
	}
	return open, nil
}

func (gemini) stream(w *wire, a Answer, asked Asked, m *memo) {
	type obj = map[string]any
	usage := obj{"promptTokenCount": a.In, "cachedContentTokenCount": a.Cached, "candidatesTokenCount": a.Out, "totalTokenCount": a.In + a.Out}
	chunk := func(finish string, parts ...obj) {
		c := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
		if finish != "" {
			c["finishReason"] = finish
		}
		w.event("", obj{"candidates": []obj{c}, "usageMetadata": usage, "modelVersion": asked.Model, "responseId": "r1"})
	}
	sign := func(what string, calls ...string) string {
		s := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "\xfb\xef signed %d %s", asked.N, what))
		m.sign(s, asked.Model+"\n"+what, calls...)
		return s
	}
	for _, p := range pieces(a.Thinking, a.Piece) {
		chunk("", obj{"text": p, "thought": true})
	}
	for _, p := range pieces(a.Text, a.Piece) {
		chunk("", obj{"text": p})
	}
	for i, c := range a.Calls {
		p := obj{"functionCall": obj{"name": c.Name, "args": json.RawMessage(c.Args), "id": c.ID}}
		if i == 0 {
			what := "call " + c.Name + canon([]byte(c.Args))
			p["thoughtSignature"] = sign(what, what+c.ID)
		}
		chunk("", p)
	}
	stop := a.Stop
	if stop == "" {
		stop = "STOP"
	}
	last := obj{"text": ""}
	if len(a.Calls) == 0 {
		last["thoughtSignature"] = sign("text ")
	}
	chunk(stop, last)
}

func (gemini) words(f Fail, text string) (code int, body string) {
	var status string
	var details []any
	code, status = 400, "INVALID_ARGUMENT"
	switch f {
	case Overloaded:
		code, status, text = 503, "UNAVAILABLE", "The model is overloaded. Please try again later."
	case RateLimited:
		code, status, text = 429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."
		details = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}}}}
	case BadKey:
		text = "API key not valid. Please pass a valid API key."
		details = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}}
	case NoCredit:
		code, status, text = 429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."
	case NoModel:
		code, status, text = 404, "NOT_FOUND", "models/gemini-nothing is not found for API version v1beta, or is not supported for generateContent."
	case TooLong:
		text = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
	case Internal:
		code, status = 500, "INTERNAL"
	case Filtered:
		text = "The prompt was blocked: PROHIBITED_CONTENT"
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"code": code, "message": text, "status": status, "details": details}})
	return code, string(data)
}

func (a gemini) fail(w http.ResponseWriter, f Fail, text string) {
	status, body := a.words(f, text)
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func (a gemini) broken(f Fail) string {
	_, body := a.words(f, "")
	return "data: " + body + "\n\n"
}
