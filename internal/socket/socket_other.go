//go:build !linux

// Package socket reaches unix sockets in folders that containers share; other systems share none.
package socket

import (
	"context"
	"errors"
	"net"
)

// Dial gives errors.ErrUnsupported.
func Dial(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }

// Listen gives errors.ErrUnsupported.
func Listen(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
