package view

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Refused is a refusal, for the one who asked.
func Refused(code schemas.Code, text string) Reply {
	return Reply{Private: true, Bad: true, Code: code, Blocks: []Block{{Text: text}}}
}

// Mistakes draws all problems of a text at once.
func Mistakes(name string, ps schemas.Problems, again string) Reply {
	head := fmt.Sprintf("%s has %d mistakes; nothing was changed", words.Clean(name), len(ps))
	if len(ps) == 1 {
		head = words.Clean(name) + " has a mistake; nothing was changed"
	}
	shown := make([]schemas.Problem, len(ps))
	for i, p := range ps {
		p.File, p.Server, p.Text, p.Hint, p.Excerpt = words.Clean(p.File), words.Clean(p.Server), words.Clean(p.Text), words.Clean(p.Hint), words.Clean(p.Excerpt)
		shown[i] = p
	}
	r := Refused(schemas.CodeInvalid, head)
	r.Blocks = append(r.Blocks, Block{Problems: shown})
	if again != "" {
		r.Blocks = append(r.Blocks, Block{Text: again})
	}
	return r
}

// Unreadable says that a file cannot be read and the last good state runs on.
func Unreadable(ps schemas.Problems) []Block {
	if len(ps) == 0 {
		return nil
	}
	shown := make([]schemas.Problem, len(ps))
	for i, p := range ps {
		p.Text, p.Hint, p.Excerpt, p.Server = words.Clean(p.Text), words.Clean(p.Hint), words.Clean(p.Excerpt), words.Clean(p.Server)
		shown[i] = p
	}
	file := ps[0].File
	if file == "" {
		file = "a file"
	}
	return []Block{{Text: words.Clean(file) + " cannot be read; the last good state runs on"}, {Problems: shown}}
}

// Placeless drops the places of a text that the person never saw.
func Placeless(ps schemas.Problems) schemas.Problems {
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].Line, ps[i].Col, ps[i].Excerpt = 0, 0, ""
	}
	return ps
}

// Reference is a number by which the operator finds an error in the log.
func Reference() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
