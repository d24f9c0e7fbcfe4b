package view_test

import (
	"strings"
	"testing"

	"bobbin/bot/internal/view"
	"bobbin/schemas"
)

// The label of a note says what kind it is, and the text does not say it again.
func TestNoteBlocks_LabelOnce(t *testing.T) {
	p := schemas.Proposal{Notes: []schemas.Note{{Kind: schemas.NoteRepair, Text: "a comma is missing in 3 places"}, {Kind: schemas.NoteRepair, Text: `the final "}" is missing`},
		{Kind: schemas.NoteRisk, Server: "a", Text: "it reaches the engine"}}}
	blocks := view.NoteBlocks(p)
	if f := blocks[0].Facts; len(f) != 2 || f[0].Label != "mended" || f[1].Label != "" || strings.Contains(f[0].Value+f[1].Value, "mended") {
		t.Errorf("%+v", blocks)
	}
	if blocks[1].Warning != "risk: a: it reaches the engine" {
		t.Errorf("%+v", blocks)
	}
}
