//go:build !linux

package proxy

import "context"

// Adopt does nothing here: only Linux gives orphans to a process other than the first.
func (p *Proxy) Adopt(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
