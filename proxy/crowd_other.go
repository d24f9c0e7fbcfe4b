//go:build !linux

package proxy

import "net"

func beside(c net.Conn) bool { return c.LocalAddr().Network() == "unix" }

func unreadable() error { return nil }
