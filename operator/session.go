package operator

import "github.com/moby/moby/api/types/container"

func using(sessions []container.Summary, server string) []string { return nil }

func (o *Operator) rejoin(_ any, _ string, _ names) error { return nil }

type health struct{}
