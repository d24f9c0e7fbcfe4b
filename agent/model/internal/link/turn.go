package link

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"bobbin/agent"
)

// Turn is what one side said until the other did: no provider likes two messages of the same side after each other.
type Turn struct {
	Role  agent.Role
	Parts []agent.Part // of the user's, results first
}

var plainID = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,40}\z`)

// PlainID reports whether every provider takes an id: some take no more than these characters, and 40 of them.
func PlainID(id string) bool { return plainID.MatchString(id) }

// Turns are a conversation's turns. Ids of calls are unique in them, because servers begin with call_0 again and again, and
// those that valid turns down are replaced.
func Turns(messages []agent.Message, valid func(id string) bool) []Turn {
	var turns []Turn
	seen, now := map[string]bool{}, map[string]string{}
	for _, m := range messages {
		if len(turns) == 0 || turns[len(turns)-1].Role != m.Role {
			turns = append(turns, Turn{Role: m.Role})
		}
		t := &turns[len(turns)-1]
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				c := *p.Call
				now[c.ID] = fresh(c.ID, seen, valid)
				c.ID = now[c.ID]
				p.Call = &c
			case p.Result != nil:
				r := *p.Result
				if id, ok := now[r.ID]; ok {
					r.ID = id
				}
				p.Result = &r
			}
			t.Parts = append(t.Parts, p)
		}
	}
	for _, t := range turns {
		slices.SortStableFunc(t.Parts, func(a, b agent.Part) int { return rank(t.Role, a) - rank(t.Role, b) })
	}
	return turns
}

// rank puts results before what was said meanwhile.
func rank(r agent.Role, p agent.Part) int {
	if r == agent.User && p.Result == nil {
		return 1
	}
	return 0
}

func fresh(id string, seen map[string]bool, valid func(string) bool) string {
	if !valid(id) || seen[id] {
		// The same each time, so that a provider's cache still knows the conversation.
		for n := byte(0); ; n++ {
			sum := sha256.Sum256(append([]byte(id), n))
			next := "call_" + hex.EncodeToString(sum[:10])
			if !seen[next] || n == 255 {
				id = next
				break
			}
		}
	}
	seen[id] = true
	return id
}

// Blank reports whether a text is one that providers refuse: nothing but spaces.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }
