package agent

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"

	"bobbin/schemas"
)

// Weights of BM25F (Robertson, Zaragoza 2009, section 3.6): how much a word counts by where it stands.
const (
	weightName        = 3
	weightServer      = 2
	weightDescription = 1
	weightProperty    = 0.6

	saturation = 1.2 // k1
	lengthNorm = 0.4 // b; a long description is no fault
	kinWeight  = 0.7 // of a word that means the same
	nearWeight = 0.7 // of a word that is spelt nearly the same
	nearLength = 4   // letters of such a word at least
	maxWords   = 400 // of one tool's text
)

// index finds tools by words. It never changes.
type index struct {
	docs    []document
	kin     map[string][]string
	rarity  map[string]float64 // by word: log of how few tools have it
	average float64            // words of a tool
}

type document struct {
	tool   schemas.Tool
	weight map[string]float64 // by word
	length float64
}

func newIndex(list []schemas.Tool) *index {
	x := &index{kin: kin(), rarity: map[string]float64{}}
	for _, tool := range list {
		d := document{tool: tool, weight: map[string]float64{}}
		d.add(tool.Name, weightName)
		d.add(tool.Server, weightServer)
		d.add(tool.Title, weightDescription)
		d.add(describe(tool.Description), weightDescription)
		for _, p := range properties(tool.Input) {
			d.add(p, weightProperty)
		}
		for word := range d.weight {
			x.rarity[word]++
		}
		x.average += d.length
		x.docs = append(x.docs, d)
	}
	n := float64(len(list))
	x.average = max(x.average/max(n, 1), 1)
	for word, in := range x.rarity {
		x.rarity[word] = math.Log(1 + (n-in+0.5)/(in+0.5))
	}
	return x
}

func (d *document) add(text string, weight float64) {
	for n, word := range wordsOf(text) {
		if n == maxWords {
			return
		}
		d.weight[word] += weight
		d.length += weight
	}
}

// find gives the tools that fit a request best, at most n. Those that are named exactly are the first.
func (x *index) find(query string, n int) []schemas.Tool {
	type hit struct {
		tool  schemas.Tool
		score float64
	}
	var hits []hit
	var asked []map[string]float64 // for each word of the request, the words that may stand for it
	for _, word := range slices.Compact(slices.Sorted(slices.Values(wordsOf(first(query, 1000))))) {
		asked = append(asked, x.meant(word))
	}
	exact := append(strings.FieldsFunc(query, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }), strings.TrimSpace(query))
	for _, d := range x.docs {
		score := 0.0
		for _, words := range asked {
			best := 0.0
			for word, share := range words {
				if f := d.weight[word]; f > 0 {
					norm := saturation * (1 - lengthNorm + lengthNorm*d.length/x.average)
					best = max(best, share*x.rarity[word]*f*(saturation+1)/(f+norm))
				}
			}
			score += best
		}
		if slices.Contains(exact, d.tool.Full()) || slices.Contains(exact, d.tool.Model) || slices.Contains(exact, d.tool.Name) && strings.ContainsAny(d.tool.Name, "_-.") || exact[len(exact)-1] == d.tool.Name {
			score += 1000
		}
		if score > 0 {
			hits = append(hits, hit{d.tool, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	var found []schemas.Tool
	for _, h := range hits[:min(n, len(hits))] {
		found = append(found, h.tool)
	}
	return found
}

// meant gives the words of tools that a word of a request may stand for, and how much each counts: itself, those that mean the same,
// and, where no tool has any of them, those that are spelt nearly so.
func (x *index) meant(word string) map[string]float64 {
	words := map[string]float64{word: 1}
	known := x.rarity[word] > 0
	for _, k := range x.kin[word] {
		words[k] = kinWeight
		known = known || x.rarity[k] > 0
	}
	if known || len(word) < nearLength {
		return words
	}
	for w := range x.rarity {
		if len(w) >= nearLength && (strings.HasPrefix(w, word) || strings.HasPrefix(word, w) || levenshtein.ComputeDistance(w, word) == 1) {
			words[w] = nearWeight
		}
	}
	return words
}

// properties are the names in a schema's top two levels.
func properties(raw json.RawMessage) (list []string) {
	type node struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var top node
	_ = json.Unmarshal(raw, &top) // a schema that is none has no names
	for name, sub := range top.Properties {
		list = append(list, name)
		var inner node
		_ = json.Unmarshal(sub, &inner)
		for name := range inner.Properties {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// wordsOf splits a text at everything that is no letter or digit and where camelCase turns, and brings words to a common form.
func wordsOf(text string) (list []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			if w := stem(strings.ToLower(string(word))); w != "" {
				list = append(list, w)
			}
		}
		word = word[:0]
	}
	runes := []rune(text)
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			continue
		}
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])) {
			end() // getURLParts: get, URL, Parts
		}
		word = append(word, r)
	}
	end()
	return list
}

// stem takes common English endings off, and words that say nothing away.
func stem(w string) string {
	switch w {
	case "a", "an", "the", "of", "in", "on", "to", "for", "and", "or", "is", "are", "be", "by", "with", "from", "at", "as", "it", "its", "this", "that",
		"i", "me", "my", "we", "our", "us", "you", "your", "please", "can", "could", "want", "need", "tool", "which", "what", "how", "do", "does", "some", "there", "have", "has", "was", "were", "will":
		return ""
	}
	if len(w) < 4 || !isASCII(w) {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "xes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	for _, ending := range []string{"ation", "ion", "ate", "ing", "ed", "er", "or", "ment"} {
		if root, ok := strings.CutSuffix(w, ending); ok && len(root) >= 4 {
			w = root
			break
		}
	}
	if n := len(w); n > 4 && w[n-1] == w[n-2] && w[n-1] != 's' && w[n-1] != 'l' {
		w = w[:n-1] // running, run
	}
	if len(w) > 4 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}

func isASCII(w string) bool {
	for i := range len(w) {
		if w[i] >= 0x80 {
			return false
		}
	}
	return true
}

// kinText is a thesaurus, a group of words on each line.
//
//go:embed kin.txt
var kinText string

// kin gives, by stem, the stems of words that tools and people use for the same.
func kin() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(kinText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		stems := wordsOf(line)
		for _, w := range stems {
			for _, k := range stems {
				if k != w && !slices.Contains(out[w], k) {
					out[w] = append(out[w], k)
				}
			}
		}
	}
	return out
}
