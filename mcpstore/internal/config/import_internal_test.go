package config

import "bobbin/schemas"

// Encode writes the servers of an import as one file.
func Encode(im schemas.Import) []byte {
	servers := make([]schemas.Server, len(im.Servers))
	for i, d := range im.Servers {
		servers[i] = d.Server
	}
	return EncodeRemote(servers, im.Inputs, "")
}
