package agent

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"

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
	kinWeight  = 0.5 // of a word that means the same
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

// find gives the tools that fit a request best, at most n. A tool that is named exactly is the first.
func (x *index) find(query string, n int) []schemas.Tool {
	type hit struct {
		tool  schemas.Tool
		score float64
	}
	var hits []hit
	asked := map[string]float64{}
	for _, word := range wordsOf(first(query, 1000)) {
		asked[word] = 1
		for _, k := range x.kin[word] {
			asked[k] = max(asked[k], kinWeight)
		}
	}
	exact := strings.TrimSpace(query)
	for _, d := range x.docs {
		score := 0.0
		for word, share := range asked {
			if f := d.weight[word]; f > 0 {
				norm := saturation * (1 - lengthNorm + lengthNorm*d.length/x.average)
				score += share * x.rarity[word] * f * (saturation + 1) / (f + norm)
			}
		}
		if exact == d.tool.Full() || exact == d.tool.Model || exact == d.tool.Name {
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

// kin gives, by stem, the stems of words that tools and people use for the same.
func kin() map[string][]string {
	out := map[string][]string{}
	for _, group := range [...]string{
		"create add new make open insert register", "delete remove drop destroy erase clear", "get fetch read show retrieve load view look",
		"list show all enumerate", "search find query lookup look", "update edit change modify set patch rename", "send post write publish tell",
		"mail email inbox", "message chat dm", "issue bug ticket", "repository repo", "pull pr merge", "run execute start launch trigger",
		"stop cancel abort halt kill end", "user person member people contact", "picture image photo", "document doc page note",
		"file document attachment", "directory folder", "database db sql", "event meeting appointment calendar", "weather forecast temperature",
		"cost bill spend price invoice", "pay charge payment", "log output trace", "error exception crash failure", "copy duplicate clone",
		"move transfer rename", "share permission access invite", "translate language", "route direction navigate", "vm virtual machine instance server", "holiday vacation away",
		"automatic auto", "website web page site", "parcel package shipment delivery track", "speech voice audio spoken transcribe", "screenshot capture snapshot",
		"quota space storage", "undo rollback revert restore", "plan schedule", "answer reply respond comment", "mute silence", "kubernetes kube k8s cluster",
	} {
		var stems []string
		for _, w := range strings.Fields(group) {
			stems = append(stems, stem(w))
		}
		for _, w := range stems {
			out[w] = append(out[w], stems...)
		}
	}
	return out
}
