package mcpstore

import (
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// Import reads a text that a person gave, in whatever shape a client writes it. name is the shown name of the file, "" for
// pasted text; hint names the server when the text is a single definition. It is pure and safe for concurrent use; literal
// secrets are taken out before anything of the text is given back.
func Import(name string, data []byte, hint string) schemas.Import {
	return config.Import(name, data, hint)
}
