// Package bot is the conversation: one Request in, one Reply out, as data that any door can draw. It holds what each verb does, the
// cards that wait for a yes, and every check of role and consent; doors have no rules of their own.
//
// A host program takes the same three steps as bobbin's doors: New, Subscribe for what happens by itself, and Handle for
// everything that a member does.
//
// What needs nothing of the rest is a room beneath, and can be read alone, from the bottom up: words (text, numbers, refusals), view
// (what a door draws), form (JSON Schemas as forms), line (what can be typed; its table names every verb), own (the tools that
// bobbin itself offers to the assistant, as data), desk (cards, questions, notices, the record of who asked),
// rule (who may do what, and the questions that this raises). What stays here turns on Options and on each other, and reads best along one of its ways:
//
//   - handle.go: a request finds its verb, verb.go: what it does.
//   - A change of the config: add.go, bundle.go or past.go → propose.go, its card → confirm.go: record, secrets, commit → need.go and
//     start.go: servers come up → the reply. notice.go and held.go are changes that came from elsewhere.
//   - A connector: connect.go, a first yes → contact.go, a look → signin.go → the same card. account.go: who uses whose sign-in.
//   - A package: install.go, the card → installing.go; upgrade.go puts the old one back.
//   - A tool: call.go by hand, chat.go by the assistant; ask.go and elicit.go put a question in the middle of it. own.go
//     and what begins with own_ are the assistant's tools that bobbin itself offers, on the same cards.
//
// They are one room because these ways cross: a change ends sign-ins and deletes what was installed, a sign-in ends in a change, the
// assistant's tools do all of it. Walls between them would be interfaces of ten methods that have one caller each.
package bot
