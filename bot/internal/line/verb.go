package line

import (
	"slices"
	"strings"

	"bobbin/schemas"
)

// Table is all verbs, in the order of the help. Those of /chat have "chat " in front of their names.
type Table struct{ MCP, Chat []Verb }

// New returns the verbs that there are.
func New() Table {
	return Table{MCP: slices.Concat(serverVerbs(), useVerbs(), ruleVerbs()), Chat: chatVerbs()}
}

// Verb describes one command for doors that register or list commands.
type Verb struct {
	Name    string // "add-json", "history show"
	Usage   string // what stands behind /mcp
	Summary string // one line, at most 100 characters
	Help    string // more lines, for /mcp help NAME; may be empty
	Role    schemas.Role
	Args    []Arg
	Bare    bool // of a group: it is meant where the group's name alone was typed
}

// Arg is one argument of a Verb, by the name that Request.Args uses.
type Arg struct {
	Name     string
	Hint     string
	Kind     string // "", "server", "tool", "file" (Request.File carries the content), "json"
	Options  []string
	Required bool // asked for with a form when it is missing
	Rest     bool // takes the remainder of a typed line as it stands
}

// Field is the kind of a form's field that asks for the argument.
func (a Arg) Field() string {
	if a.Kind == "json" {
		return "multiline"
	}
	return ""
}

// Line is how a verb is typed, with its arguments.
func (v *Verb) Line() string {
	if strings.HasPrefix(v.Name, "chat ") {
		return "/chat " + v.Usage
	}
	return "/mcp " + v.Usage
}

// Slash is how a verb is typed.
func Slash(name string) string {
	if strings.HasPrefix(name, "chat ") {
		return "/" + name
	}
	return "/mcp " + name
}
