package own

import (
	"encoding/json"
	"strings"

	"bobbin/bot/internal/words"
)

// Mask is how a schemas.Secret prints.
const Mask = "***"

// Taken refuses what a model took from the masked arguments of a call before.
func Taken(name string) error {
	return words.Invalid("env "+name+": "+Mask+" is how a value is hidden, not a value", "leave it empty, and the member is asked for it")
}

// Hidden gives the arguments of a call of one of Tools as they may be shown and written down: without the values of env.
func Hidden(args json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return json.RawMessage("{}")
	}
	for name, raw := range all {
		if !strings.EqualFold(name, "env") {
			continue
		}
		var env map[string]json.RawMessage
		if json.Unmarshal(raw, &env) != nil {
			env = nil
		}
		hidden := map[string]string{}
		for k := range env {
			hidden[k] = Mask
		}
		all[name], _ = json.Marshal(hidden)
	}
	out, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}
