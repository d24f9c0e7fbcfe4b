package agent

import "bobbin/schemas"

// Repaired is what a model of no name would get after a file with these bytes was read and a member said something.
func Repaired(raw []byte, said Message) []Message {
	messages, _, _ := decode(raw)
	return request(append(repair(messages), said), "")
}

// Found is what a search over tools gives.
func Found(list []schemas.Tool, query string, n int) []schemas.Tool {
	return newIndex(list).find(query, n)
}
