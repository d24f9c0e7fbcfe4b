//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"net"
)

func dialSocket(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }

func listenSocket(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
