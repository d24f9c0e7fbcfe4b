package registry

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// maxWork bounds how many schemas one value may be checked against at the same place. Two references to the next definition in
// each of forty definitions are a trillion, in two kilobytes.
const maxWork = 5000

var errCostly = errors.New("takes too long to check")

// costly reports whether checking one value against some part of the schema means more than maxWork schemas.
func costly(schema any) bool {
	c := cost{root: schema, anchors: map[string]any{}, known: map[string]int{}}
	c.collect(schema)
	return c.ids > 1 || c.any(schema) // parts with an id of their own change what a reference means
}

// cost counts the schemas that apply to the same value (JSON Schema 2020-12, core, section 10.2 and 8.2.3).
type cost struct {
	root    any
	ids     int
	anchors map[string]any
	known   map[string]int // by reference; -1 while it is being counted
}

func (c *cost) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$id"].(string); ok {
			c.ids++
		}
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				c.anchors["#"+name] = v
			}
		}
		for _, item := range v {
			c.collect(item)
		}
	case []any:
		for _, item := range v {
			c.collect(item)
		}
	}
}

// any looks at every part, since a value of the arguments may meet each of them.
func (c *cost) any(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if c.of(v) > maxWork {
			return true
		}
		for _, item := range v {
			if c.any(item) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if c.any(item) {
				return true
			}
		}
	}
	return false
}

// of counts a schema with all that it applies to the same value.
func (c *cost) of(v any) int {
	s, ok := v.(map[string]any)
	if !ok {
		return 1
	}
	n := 1
	add := func(more int) { n = min(n+more, maxWork+1) }
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := s[key].(string); ok {
			add(c.behind(ref))
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for _, item := range list {
			add(c.of(item))
		}
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		if item, ok := s[key]; ok {
			add(c.of(item))
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		each, _ := s[key].(map[string]any)
		for _, item := range each {
			add(c.of(item))
		}
	}
	return n
}

// behind counts what a reference leads to, once for each reference text.
func (c *cost) behind(ref string) int {
	if n, ok := c.known[ref]; ok {
		return max(n, 1) // a circle ends here: the validator refuses those that never leave the value
	}
	c.known[ref] = -1
	target, ok := c.anchors[ref]
	if !ok {
		target, ok = c.pointer(strings.TrimPrefix(ref, "#"))
	}
	n := maxWork + 1 // nobody knows
	if ok {
		n = c.of(target)
	}
	c.known[ref] = n
	return n
}

// pointer follows a JSON pointer (RFC 6901) in a fragment.
func (c *cost) pointer(fragment string) (v any, ok bool) {
	path, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, false
	}
	v = c.root
	for _, part := range strings.Split(path, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[part]
		case []any:
			n, err := strconv.Atoi(part)
			if ok = err == nil && n >= 0 && n < len(at); ok {
				v = at[n]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return v, path == "" || path[0] == '/'
}
