package link

import (
	"encoding/json"
	"strings"
)

// combined are the keywords that Anthropic and OpenAI refuse at the top of a tool's schema, and with it the whole request.
var combined = []string{"oneOf", "anyOf", "allOf", "not", "enum"}

// Schema is a tool's schema for providers that want an object with properties at the top: the whole of it, but for what they
// refuse there, which comes as words for the description.
func Schema(input json.RawMessage) (schema map[string]any, words string) {
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) != nil {
		all = nil
	}
	schema = map[string]any{"type": "object", "properties": map[string]any{}}
	for k, v := range all {
		if k != "type" {
			schema[k] = v
		}
	}
	var also []string
	for _, k := range combined {
		if v, ok := all[k]; ok {
			delete(schema, k)
			also = append(also, k+": "+printable(string(v), 2000))
		}
	}
	if len(also) > 0 {
		words = "The arguments must match, too: " + strings.Join(also, "; ")
	}
	return schema, words
}
