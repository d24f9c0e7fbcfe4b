package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// suiteMCP is a server over stdio with all that the conformance suite's server scenarios want of one: of 2025-11-25, or with the argument
// "modern" of 2026-07-28.
func suiteMCP() int {
	s := &suiteServer{modern: len(os.Args) > 1 && os.Args[1] == "modern", asked: map[string]chan json.RawMessage{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		var m suiteMessage
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if m.Method == "" {
			s.mu.Lock()
			if ch := s.asked[string(m.ID)]; ch != nil {
				ch <- m.Result
			}
			s.mu.Unlock()
			continue
		}
		if m.ID != nil {
			go s.handle(&m)
		}
	}
	return 0
}

type suiteServer struct {
	modern bool
	out    sync.Mutex

	mu     sync.Mutex
	next   int
	asked  map[string]chan json.RawMessage
	listen json.RawMessage // id of the open subscription
	less   bool            // a tool is away
}

type suiteMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		Arguments map[string]any             `json:"arguments"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		State     string                     `json:"requestState"`
		Meta      struct {
			Progress     json.RawMessage            `json:"progressToken"`
			Version      string                     `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities map[string]json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

func (s *suiteServer) write(v any) {
	b, _ := json.Marshal(v)
	s.out.Lock()
	defer s.out.Unlock()
	_, _ = os.Stdout.Write(append(b, '\n'))
}

type object = map[string]any

func (s *suiteServer) notify(method string, params object) {
	s.write(object{"jsonrpc": "2.0", "method": method, "params": params})
}

func (s *suiteServer) fail(m *suiteMessage, code int, text string, data any) {
	s.write(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": code, "message": text, "data": data}})
}

func (s *suiteServer) reply(m *suiteMessage, result object) {
	if s.modern && result["resultType"] == nil {
		result["resultType"] = "complete"
	}
	s.write(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

// ask puts a request to the client, as servers did before 2026-07-28.
func (s *suiteServer) ask(method string, params object) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.next++
	id := fmt.Sprintf(`"suite-%d"`, s.next)
	s.asked[id] = ch
	s.mu.Unlock()
	s.write(object{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	return <-ch
}

func (s *suiteServer) handle(m *suiteMessage) {
	caps := object{"tools": object{"listChanged": true}, "prompts": object{"listChanged": true}, "resources": object{"listChanged": true}, "completions": object{}, "logging": object{}}
	switch m.Method {
	case "initialize":
		if s.modern {
			s.fail(m, -32601, "method not found", nil)
			return
		}
		caps["resources"] = object{"listChanged": true, "subscribe": true}
		s.reply(m, object{"protocolVersion": "2025-11-25", "capabilities": caps, "serverInfo": object{"name": "suite", "version": "1"}})
	case "server/discover":
		if !s.modern {
			s.fail(m, -32601, "method not found", nil)
			return
		}
		s.reply(m, object{"supportedVersions": []string{"2026-07-28"}, "capabilities": caps, "ttlMs": 0, "cacheScope": "private", "_meta": object{"io.modelcontextprotocol/serverInfo": object{"name": "suite", "version": "1"}}})
	case "subscriptions/listen":
		s.mu.Lock()
		s.listen = m.ID
		s.mu.Unlock()
		s.notify("notifications/subscriptions/acknowledged", object{"notifications": object{"toolsListChanged": true, "promptsListChanged": true}, "_meta": object{"io.modelcontextprotocol/subscriptionId": m.ID}})
	case "ping", "resources/subscribe", "resources/unsubscribe":
		s.reply(m, object{})
	case "tools/list":
		s.reply(m, object{"tools": s.tools()})
	case "tools/call":
		s.call(m)
	case "prompts/list":
		s.reply(m, object{"prompts": suitePrompts(s.modern)})
	case "prompts/get":
		s.prompt(m)
	case "resources/list":
		s.reply(m, object{"resources": []object{
			{"uri": "test://static-text", "name": "Static text", "description": "A text", "mimeType": "text/plain"},
			{"uri": "test://static-binary", "name": "Static binary", "description": "A picture", "mimeType": "image/png"},
			{"uri": "test://watched-resource", "name": "Watched", "description": "A text that changes", "mimeType": "text/plain"},
		}})
	case "resources/templates/list":
		s.reply(m, object{"resourceTemplates": []object{{"uriTemplate": "test://template/{id}/data", "name": "Template", "description": "By its id", "mimeType": "application/json"}}})
	case "resources/read":
		s.read(m)
	case "completion/complete":
		s.reply(m, object{"completion": object{"values": []string{"testing"}, "total": 1, "hasMore": false}})
	default:
		s.fail(m, -32601, "method not found", nil)
	}
}

const suitePNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
const suiteWAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

func (s *suiteServer) read(m *suiteMessage) {
	text := func(mime, t string) {
		s.reply(m, object{"contents": []object{{"uri": m.Params.URI, "mimeType": mime, "text": t}}})
	}
	id, template := strings.CutPrefix(m.Params.URI, "test://template/")
	id, data := strings.CutSuffix(id, "/data")
	switch {
	case m.Params.URI == "test://static-text", m.Params.URI == "test://watched-resource":
		text("text/plain", "This is the content of the static text resource.")
	case m.Params.URI == "test://static-binary":
		s.reply(m, object{"contents": []object{{"uri": m.Params.URI, "mimeType": "image/png", "blob": suitePNG}}})
	case template && data:
		text("application/json", `{"id":"`+id+`","templateTest":true,"data":"Data for ID: `+id+`"}`)
	default:
		s.fail(m, -32602, "Resource not found", object{"uri": m.Params.URI})
	}
}

func suitePrompts(modern bool) []object {
	arg := func(names ...string) (list []object) {
		for _, n := range names {
			list = append(list, object{"name": n, "description": "any text", "required": true})
		}
		return list
	}
	all := []object{
		{"name": "test_simple_prompt", "description": "A simple prompt"},
		{"name": "test_prompt_with_arguments", "description": "With two arguments", "arguments": arg("arg1", "arg2")},
		{"name": "test_prompt_with_embedded_resource", "description": "With a resource", "arguments": arg("resourceUri")},
		{"name": "test_prompt_with_image", "description": "With a picture"},
	}
	if modern {
		all = append(all, object{"name": "test_input_required_result_prompt", "description": "Asks first"})
	}
	return all
}

func (s *suiteServer) prompt(m *suiteMessage) {
	user := func(c object) object { return object{"role": "user", "content": c} }
	text := func(t string) object { return user(object{"type": "text", "text": t}) }
	a := m.Params.Arguments
	switch m.Params.Name {
	case "test_simple_prompt":
		s.reply(m, object{"messages": []object{text("This is a simple prompt for testing.")}})
	case "test_prompt_with_arguments":
		s.reply(m, object{"messages": []object{text(fmt.Sprintf("Prompt with arguments: arg1='%v', arg2='%v'", a["arg1"], a["arg2"]))}})
	case "test_prompt_with_embedded_resource":
		r := object{"type": "resource", "resource": object{"uri": a["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content for testing."}}
		s.reply(m, object{"messages": []object{user(r), text("Please process the embedded resource above.")}})
	case "test_prompt_with_image":
		s.reply(m, object{"messages": []object{user(object{"type": "image", "data": suitePNG, "mimeType": "image/png"}), text("Please analyze the image above.")}})
	case "test_input_required_result_prompt":
		if m.Params.Responses["user_context"] == nil {
			s.require(m, "", object{"user_context": form("What context should the prompt use?", "context", "string")})
			return
		}
		s.reply(m, object{"messages": []object{text("In context: " + string(m.Params.Responses["user_context"]))}})
	default:
		s.fail(m, -32602, "no such prompt", nil)
	}
}

func form(words, field, kind string) object {
	return object{"method": "elicitation/create", "params": object{"message": words,
		"requestedSchema": object{"type": "object", "properties": object{field: object{"type": kind}}, "required": []string{field}}}}
}

func sampling(words string) object {
	return object{"method": "sampling/createMessage", "params": object{"maxTokens": 100,
		"messages": []object{{"role": "user", "content": object{"type": "text", "text": words}}}}}
}

// require is an InputRequiredResult.
func (s *suiteServer) require(m *suiteMessage, state string, requests object) {
	r := object{"resultType": "input_required", "inputRequests": requests}
	if state != "" {
		r["requestState"] = state
	}
	s.reply(m, r)
}

func (s *suiteServer) tools() []object {
	names := []string{"test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource", "test_multiple_content_types", "test_tool_with_logging",
		"test_error_handling", "test_tool_with_progress", "test_reconnection", "test_sampling", "test_elicitation", "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums"}
	if s.modern {
		names = append(names, "test_missing_capability", "test_streaming_elicitation", "test_logging_tool", "test_trigger_tool_change", "test_trigger_prompt_change")
		for _, n := range []string{"elicitation", "sampling", "list_roots", "request_state", "multiple_inputs", "multi_round", "tampered_state", "capabilities"} {
			names = append(names, "test_input_required_result_"+n)
		}
	}
	s.mu.Lock()
	if !s.less {
		names = append(names, "test_sometimes")
	}
	s.mu.Unlock()
	var all []object
	for _, n := range names {
		t := object{"name": n, "description": "Of the conformance suite", "inputSchema": object{"type": "object"}, "annotations": object{"readOnlyHint": true}}
		all = append(all, t)
	}
	if s.modern {
		mirrored := object{"type": "object", "properties": object{"region": object{"type": "string", "x-mcp-header": "Region"}}}
		all = append(all, object{"name": "test_custom_headers", "description": "Has an argument repeated in a header", "inputSchema": mirrored, "annotations": object{"readOnlyHint": true}})
	}
	var deep object
	_ = json.Unmarshal([]byte(suiteSchema), &deep)
	return append(all, object{"name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features", "inputSchema": deep, "annotations": object{"readOnlyHint": true}})
}

const suiteSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

func (s *suiteServer) call(m *suiteMessage) {
	content := func(blocks ...object) { s.reply(m, object{"content": blocks}) }
	text := func(t string) { content(object{"type": "text", "text": t}) }
	image := object{"type": "image", "data": suitePNG, "mimeType": "image/png"}
	pause := func() { time.Sleep(50 * time.Millisecond) }
	switch m.Params.Name {
	case "test_simple_text", "test_sometimes", "test_reconnection", "test_custom_headers", "json_schema_2020_12_tool":
		text("This is a simple text response for testing.")
	case "test_image_content":
		content(image)
	case "test_audio_content":
		content(object{"type": "audio", "data": suiteWAV, "mimeType": "audio/wav"})
	case "test_embedded_resource":
		content(object{"type": "resource", "resource": object{"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}})
	case "test_multiple_content_types":
		content(object{"type": "text", "text": "Multiple content types test:"}, image,
			object{"type": "resource", "resource": object{"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": `{"test":"data","value":123}`}})
	case "test_error_handling":
		s.reply(m, object{"isError": true, "content": []object{{"type": "text", "text": "This tool intentionally returns an error for testing"}}})
	case "test_tool_with_logging", "test_logging_tool":
		for i, words := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if i > 0 {
				pause()
			}
			s.notify("notifications/message", object{"level": "info", "data": words})
		}
		text("logged")
	case "test_tool_with_progress":
		for _, n := range []int{0, 50, 100} {
			if m.Params.Meta.Progress != nil {
				s.notify("notifications/progress", object{"progressToken": m.Params.Meta.Progress, "progress": n, "total": 100})
			}
			pause()
		}
		text("done")
	case "test_sampling":
		text("LLM response: " + string(s.ask("sampling/createMessage", sampling(fmt.Sprint(m.Params.Arguments["prompt"]))["params"].(object))))
	case "test_elicitation":
		q := object{"message": m.Params.Arguments["message"], "requestedSchema": object{"type": "object", "required": []string{"username", "email"}, "properties": object{
			"username": object{"type": "string", "description": "User's response"}, "email": object{"type": "string", "description": "User's email address"}}}}
		text("User response: " + string(s.ask("elicitation/create", q)))
	case "test_elicitation_sep1034_defaults":
		text("Elicitation completed: " + string(s.ask("elicitation/create", suiteDefaults())))
	case "test_elicitation_sep1330_enums":
		text("Elicitation completed: " + string(s.ask("elicitation/create", suiteEnums())))
	default:
		s.callModern(m, text)
	}
}

func suiteDefaults() object {
	var schema object
	_ = json.Unmarshal([]byte(`{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`), &schema)
	return object{"message": "Please look at the defaults", "requestedSchema": schema}
}

func suiteEnums() object {
	var schema object
	_ = json.Unmarshal([]byte(`{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`), &schema)
	return object{"message": "Please choose", "requestedSchema": schema}
}

// callModern runs the tools of 2026-07-28, which ask in their results.
func (s *suiteServer) callModern(m *suiteMessage, text func(string)) {
	answered := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(k string) bool { return len(m.Params.Responses[k]) == 0 })
	}
	name, mrtr := strings.CutPrefix(m.Params.Name, "test_input_required_result_")
	_, samples := m.Params.Meta.Capabilities["sampling"]
	confirm := object{"confirm": form("Please confirm", "ok", "boolean")}
	switch {
	case mrtr && name == "elicitation" || m.Params.Name == "test_streaming_elicitation":
		if !answered("user_name") {
			s.require(m, "", object{"user_name": form("What is your name?", "name", "string")})
			return
		}
		text("Hello, " + string(m.Params.Responses["user_name"]))
	case mrtr && name == "sampling":
		if !answered("capital_question") {
			s.require(m, "", object{"capital_question": sampling("What is the capital of France?")})
			return
		}
		text(string(m.Params.Responses["capital_question"]))
	case mrtr && name == "list_roots":
		if !answered("client_roots") {
			s.require(m, "", object{"client_roots": object{"method": "roots/list", "params": object{}}})
			return
		}
		text(string(m.Params.Responses["client_roots"]))
	case mrtr && (name == "request_state" || name == "tampered_state"):
		switch {
		case !answered("confirm"):
			s.require(m, "state-1", confirm)
		case m.Params.State != "state-1":
			s.fail(m, -32602, "that is not the state", nil)
		default:
			text("state-ok")
		}
	case mrtr && name == "multiple_inputs":
		if !answered("user_name", "greeting", "client_roots") {
			s.require(m, "state-1", object{"user_name": form("What is your name?", "name", "string"), "greeting": sampling("Generate a greeting"), "client_roots": object{"method": "roots/list", "params": object{}}})
			return
		}
		text("all of it")
	case mrtr && name == "multi_round":
		switch {
		case m.Params.State == "":
			s.require(m, "round-1", object{"step1": form("Step 1: What is your name?", "name", "string")})
		case m.Params.State == "round-1" && answered("step1"):
			s.require(m, "round-2", object{"step2": form("Step 2: What is your favorite color?", "color", "string")})
		default:
			text("both")
		}
	case mrtr && name == "capabilities":
		requests := object{}
		if samples {
			requests["sample"] = sampling("Say hello")
		}
		if _, ok := m.Params.Meta.Capabilities["elicitation"]; ok {
			requests["form"] = form("What is your name?", "name", "string")
		}
		if len(m.Params.Responses) == 0 {
			s.require(m, "", requests)
			return
		}
		text("done")
	case m.Params.Name == "test_missing_capability":
		if !samples {
			s.fail(m, -32021, "sampling is needed", object{"requiredCapabilities": object{"sampling": object{}}})
			return
		}
		text("it can")
	case m.Params.Name == "test_trigger_tool_change":
		s.mu.Lock()
		s.less = !s.less
		s.mu.Unlock()
		s.changed("notifications/tools/list_changed")
		text("changed")
	case m.Params.Name == "test_trigger_prompt_change":
		s.changed("notifications/prompts/list_changed")
		text("changed")
	default:
		s.fail(m, -32602, "no such tool", nil)
	}
}

func (s *suiteServer) changed(method string) {
	s.mu.Lock()
	id := s.listen
	s.mu.Unlock()
	s.notify(method, object{"_meta": object{"io.modelcontextprotocol/subscriptionId": id}})
}
