package bot

import (
	"context"

	"bobbin/schemas"
)

// Ask is the gate of calls that need a yes: it posts a card to the requester and waits for the answer or the end of ctx.
// Several may wait at once. Hour and always are stored before it returns. Without a door that reaches the member it answers
// CodeAsk at once, at the end of ctx CodeExpired; in both cases the call must not run.
func (b *Bot) Ask(ctx context.Context, ask schemas.Ask) (schemas.Answer, error) {
	return b.rules.Ask(ctx, ask)
}

// Contact is the gate of hosts that need a yes: it posts a card to the member whose sandbox wants to reach one, and waits for
// the answer, the end of ctx, or a minute. Always and never change the thread's rules when a manager says them; they are stored
// before it returns, and a rule about the host that is made meanwhile answers, too. Without a door that reaches the member it
// answers CodeAsk at once, at the end CodeExpired; whenever there is an error the host must not be reached.
func (b *Bot) Contact(ctx context.Context, c schemas.Contact) (schemas.Answer, error) {
	return b.rules.Contact(ctx, c)
}
