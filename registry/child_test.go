package registry_test

import "encoding/json"

func runChild() bool { return false }

func tools(raw ...json.RawMessage) []json.RawMessage { return raw }
