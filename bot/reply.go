package bot

import "bobbin/bot/internal/view"

// What a door draws and hands back, as data. The shapes lie beneath the rooms of bot that make them; everybody else knows them by
// these names.
type (
	Reply  = view.Reply  // the answer to a Request
	Block  = view.Block  // one part of a Reply
	Open   = view.Open   // a page to open
	Fact   = view.Fact   // label and value
	Table  = view.Table  // rows under headings
	Row    = view.Row    // one line of a Table
	Choice = view.Choice // a button
	Form   = view.Form   // asks for values
	Field  = view.Field  // one value of a Form
	Action = view.Action // answers a Reply's choices or form
	Notice = view.Notice // what happened by itself
)
