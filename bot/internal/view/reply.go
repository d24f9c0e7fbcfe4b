package view

import (
	"time"

	"bobbin/schemas"
)

// Reply is what a door draws: data, not text. The first block says what happened or what is wrong.
type Reply struct {
	Private bool // for the requester's eyes alone
	Bad     bool // a refusal or failure
	Blocks  []Block
	Form    *Form
	// ID is the nonce that Choices and Form are answered with; "" when there are none.
	ID      string
	Choices []Choice
	Expires time.Time // of ID; zero = no end
	// Replace names an earlier reply's ID that this one settles; the door may draw it in the old one's place.
	Replace string
	Code    schemas.Code // of a refusal, for scripts; "" otherwise
}

// With is a reply with more blocks at its end.
func With(r Reply, bs ...Block) Reply {
	r.Blocks = append(r.Blocks, bs...)
	return r
}

// Block is one part of a reply; exactly one field is set. Texts use `code` for names and commands and no other markup;
// untrusted text in them is already cleaned.
type Block struct {
	Text     string // a paragraph; its lines stay lines
	Facts    []Fact // label and value, as a small table
	Diff     string // unified diff lines: "+", "-", " " or "@@"
	Code     string // preformatted, such as a tool's result
	Problems []schemas.Problem
	Table    *Table
	File     *schemas.File // to download
	Warning  string        // a plain warning about trust
	Open     *Open         // a page to open in the person's own browser
	// Answer is the assistant's, as far as it has come. Its Text is Markdown of a model: links and images in it stay inert. Args and
	// Result of its steps are for the one whose Reply it is.
	Answer *schemas.Answering
}

// Open is a page that only a person's own press opens: a door never fetches, previews or embeds it. The URL is https, or http on
// loopback, and is shown whole.
type Open struct {
	Label string // of the button: "Sign in at auth.example.com"
	URL   string
}

// Fact is one line of a card's table.
type Fact struct {
	Label, Value string
	Note         string // smaller, behind the value
}

// Table is rows under headings; a Row with only Head set starts a group.
type Table struct {
	Columns []string
	Rows    []Row
}

// Row is one line of a Table. State, if set, is one of schemas' states for a door that draws a mark beside it.
type Row struct {
	Head  string
	Cells []string
	State schemas.State
}

// Choice is one thing to press or answer by number or label.
type Choice struct {
	Key   string // what Action.Choice carries
	Label string // "Confirm"
	Style string // "": plain, "primary", "danger"
}

// Form asks for values. In a line door each field is asked on a line of its own. A Reply that is Bad and has a Form asks again
// after values were refused: the door fills in what was typed, except secrets.
type Form struct {
	Title  string
	Fields []Field
	Submit string // label of the button; "" = "Send"
}

// Field is one value of a Form.
type Field struct {
	Name     string
	Label    string
	Hint     string // format, example
	Kind     string // "": one line, "multiline", "secret", "number", "integer", "boolean", "choice", "json"
	Required bool
	Default  string
	Options  []string // of a choice
}

// Notice is something that happened by itself and that a thread should see.
type Notice struct {
	Thread schemas.ThreadID
	To     schemas.MemberID // "": everybody in the thread
	Reply  Reply
	// Door, if set, is the one that shows this to all its members already, and passes it over. Others show it: an answer to somebody
	// else, again and again with the same Reply.ID while it comes, and at last with that in Reply.Replace.
	Door schemas.Door
	// Changed says that the thread's servers or their states changed; a door redraws its list. Reply may be empty then.
	Changed bool
}

// Action answers a Reply's choices or form. ID is the nonce that the reply carried; who may use it is checked again here.
type Action struct {
	ID     string
	Choice string            // key of the Choice; "" for a form
	Values map[string]string // of a form, by field name
}
