package bot

import "bobbin/schemas"

// Request is one thing that a member did: exactly one of Text, Verb or Action is set. The door fills Caller from the
// platform's own event.
type Request struct {
	Caller schemas.Caller
	Text   string            // a typed line or message, "/mcp …" or free text
	Verb   string            // a command that came in parts: "add-json", "history show"; Args holds the rest
	Args   map[string]string // by the argument names of the verb table
	File   *schemas.File     // an uploaded file, for upload or dropped on the page
	Action *Action           // a button, a choice or a submitted form
	// Progress, if set, gets short lines while long work goes on ("github is starting …"). It is called from the goroutine of
	// Handle only and must not block.
	Progress func(string)
}

// Action answers a Reply's choices or form. ID is the nonce that the reply carried; who may use it is checked again here.
type Action struct {
	ID     string
	Choice string            // key of the Choice; "" for a form
	Values map[string]string // of a form, by field name
}
