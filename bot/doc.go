// Package bot is the conversation: one Request in, one Reply out, as data that any door can draw. It holds the verb table,
// the cards that wait for a yes, and every check of role and consent; doors have no rules of their own.
//
// The room is larger than others because each verb of the table and its words live in it. What knows nothing of the
// conversation stands apart: line.go (typed lines), clean.go (untrusted text), argument.go (forms of JSON Schemas),
// content.go (MCP results), number.go.
//
// A host program takes the same three steps as bobbin's doors: New, Subscribe for what happens by itself, and Handle for
// everything that a member does.
package bot
