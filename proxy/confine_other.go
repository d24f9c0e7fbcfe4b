//go:build !linux

package proxy

import "errors"

func confine() error { return errors.New("only Linux can confine programs") }

func filtered() bool { return false }

func (p *Proxy) loose() []string { return []string{"only Linux can confine programs"} }
