package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"bobbin/schemas"
)

const maxModelName = 64

// modelNames gives each tool its name for models, ext_{slug}_{tool}, unique without regard to case. Names that are too
// long or would meet get a hash of server and tool behind them, all of those that meet, so that the order does not matter.
func modelNames(tools []*schemas.Tool) {
	digits := make([]int, len(tools))
	for n, t := range tools {
		if len(base(t)) > maxModelName {
			digits[n] = 8
		}
	}
	for _, more := range []int{8, 16, 32, 0} {
		meet := map[string][]int{}
		for n, t := range tools {
			t.Model = modelName(t, digits[n])
			key := strings.ToLower(t.Model)
			meet[key] = append(meet[key], n)
		}
		for _, ns := range meet {
			for _, n := range ns {
				if len(ns) > 1 {
					digits[n] = max(digits[n], more)
				}
			}
		}
	}
}

func base(t *schemas.Tool) string {
	return "ext_" + letters(schemas.Slug(t.Server)) + "_" + letters(t.Name)
}

func modelName(t *schemas.Tool, digits int) string {
	name := base(t)
	if digits == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(t.Server + "\x00" + t.Name))
	return name[:min(len(name), maxModelName-1-digits)] + "_" + hex.EncodeToString(sum[:])[:digits]
}

// letters replaces what a model's name must not hold.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, text)
}

// serverOf finds the server that a full name means: the longest of those whose name and a dot begin it.
func serverOf(full string, servers map[string]*view) *view {
	for i := len(full) - 1; i > 0; i-- {
		if full[i] == '.' {
			if v := servers[full[:i]]; v != nil {
				return v
			}
		}
	}
	return nil
}
