package operator

import "time"

// Hasten lets an operator look after its servers more often than it would.
func (o *Operator) Hasten(health, backoff time.Duration) {
	o.opt.health, o.opt.backoff = health, backoff
}
