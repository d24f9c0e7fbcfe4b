//go:build !linux

package operator

import (
	"context"
	"errors"
	"net"
)

func dialSocket(context.Context, string) (net.Conn, error) {
	return nil, errors.New("operator: containers share no sockets with this system")
}

func listenSocket(string) (net.Listener, error) {
	return nil, errors.New("operator: containers share no sockets with this system")
}
