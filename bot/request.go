package bot

import "bobbin/schemas"

// Request is one thing that a member did: exactly one of Text, Verb or Action is set. The door fills Caller from the
// platform's own event.
type Request struct {
	Caller schemas.Caller
	Text   string            // a typed line or message, "/mcp …" or free text
	Verb   string            // a command that came in parts: "add-json", "history show", "chat mode"; Args holds the rest
	Args   map[string]string // by the argument names of the verb table
	File   *schemas.File     // an uploaded file, for upload or dropped on the page
	Action *Action           // a button, a choice or a submitted form
	// Progress, if set, gets short lines while long work goes on ("github is starting …"). It is called from the goroutine of
	// Handle only and must not block.
	Progress func(string)

	// Files came with a Text: a single config is taken as File is, anything else is for the assistant. At most 10, of 5 MiB each.
	Files []schemas.File
	// Mentioned says that Text is for the assistant by name: it mentions the bot, or replies to it. Where many speak with each other
	// (Discord), a text that does not, and need not be answered, gets the empty Reply, and a door shows nothing.
	Mentioned bool
	// Stream, if set, gets an answer while it comes: a Reply with Block.Answer and the choice to stop it, the whole of it each time,
	// always with the same ID. What Handle returns has that ID in Replace. It is called by one goroutine at a time, the first time
	// before the message waits for anything, never after Handle returned, and must not block. A message that goes into an answer on
	// its way says so here (Answering.Joined), and Handle returns a Reply without Blocks when that has ended.
	Stream func(Reply)
}
