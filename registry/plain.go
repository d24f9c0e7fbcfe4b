package registry

import (
	"bytes"
	"slices"

	"bobbin/internal/jsonscan"
)

// plain is a tool's schema that says no more than most do: what members there are, of which type, and which must be given. Arguments that
// fit it are passed without being decoded, which saves more than half of their check; everything else is the validator's.
type plain struct {
	kinds    map[string]string // of members; "" is any
	required []string
	closed   bool // no other members
}

// plainOf gives nil for a schema that says more than a plain one can.
func plainOf(schema map[string]any) *plain {
	p := &plain{kinds: map[string]string{}}
	for key, v := range schema {
		switch key {
		case "properties":
			members, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			for name, member := range members {
				if p.kinds[name], ok = kindOf(member); !ok {
					return nil
				}
			}
		case "required":
			names, ok := v.([]any)
			if !ok {
				return nil
			}
			for _, name := range names {
				text, ok := name.(string)
				if !ok || slices.Contains(p.required, text) {
					return nil
				}
				p.required = append(p.required, text)
			}
		case "additionalProperties":
			open, ok := v.(bool)
			if !ok {
				return nil
			}
			p.closed = !open
		case "type":
			if v != "object" {
				return nil
			}
		default:
			if !remark(key) {
				return nil
			}
		}
	}
	return p
}

// kindOf gives the type of a member that has nothing but one.
func kindOf(member any) (kind string, ok bool) {
	said, ok := member.(map[string]any)
	if !ok {
		return "", false
	}
	for key, v := range said {
		switch {
		case key == "type":
			if kind, ok = v.(string); !ok {
				return "", false
			}
		case !remark(key):
			return "", false
		}
	}
	return kind, true
}

// remark reports whether a keyword of JSON Schema constrains nothing (2020-12, Validation, 9).
func remark(key string) bool {
	return slices.Contains([]string{"$schema", "$comment", "title", "description", "default", "examples", "deprecated"}, key)
}

// fits reports whether arguments surely are right; false says nothing.
func (p *plain) fits(args []byte) bool {
	if p == nil || !jsonscan.Object(args) {
		return false
	}
	var room [16][]byte
	given, needed, fits := room[:0], 0, true
	err := jsonscan.Members(args, jsonscan.All(args), func(key []byte, value jsonscan.Span) {
		kind, known := p.kinds[string(key)]
		if slices.Contains(p.required, string(key)) {
			needed++
		}
		fits = fits && (known || !p.closed) && isKind(value.Of(args), kind) && len(given) < len(room) &&
			bytes.IndexByte(key, '\\') < 0 && !slices.ContainsFunc(given, func(k []byte) bool { return bytes.Equal(k, key) })
		given = append(given, key)
	})
	return err == nil && fits && needed == len(p.required)
}

// isKind reports whether a JSON value is surely of a type.
func isKind(value []byte, kind string) bool {
	first := value[0]
	number := first == '-' || first >= '0' && first <= '9'
	switch kind {
	case "":
		return true
	case "string":
		return first == '"'
	case "boolean":
		return first == 't' || first == 'f'
	case "number":
		return number
	case "integer":
		return number && !bytes.ContainsAny(value, ".eE")
	case "object":
		return first == '{'
	case "array":
		return first == '['
	}
	return false
}
