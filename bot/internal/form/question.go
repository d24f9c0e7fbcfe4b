package form

import (
	"slices"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// OfQuestion gives the form's fields, by their titles, with a warning at those that nobody should fill in.
func OfQuestion(q schemas.Elicit) []Argument {
	fields := Of(q.Schema)
	for i, f := range fields {
		if f.title != "" {
			fields[i].Label = f.title
		}
		if wantsSecret(f.Name + " " + f.title + " " + f.Hint) {
			fields[i].Hint = strings.TrimPrefix(f.Hint+" · looks like a secret: "+words.Clean(q.Server)+" would get it", " · ")
		}
	}
	return fields
}

// Labelled names the field at each mistake of an answer.
func Labelled(fields []Argument, ps schemas.Problems) schemas.Problems {
	ps = slices.Clone(ps)
	for i, p := range ps {
		for _, f := range fields {
			if p.Pointer == "/"+f.Name || strings.HasPrefix(p.Pointer, "/"+f.Name+"/") {
				ps[i].Text = f.Label + ": " + p.Text
				break
			}
		}
	}
	return ps
}

// wantsSecret reports whether a field's name asks for what nobody should give away.
func wantsSecret(name string) bool {
	name = strings.ToLower(name)
	for _, w := range []string{"password", "passwd", "passphrase", "secret", "token", "api key", "api_key", "apikey", "private key", "private_key", "credit", "cvv", "pin code"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}
