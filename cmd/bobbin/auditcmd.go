package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bobbin/audit"
	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

func (m *Main) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Look after the audit logs", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(&cobra.Command{
		Use: "verify [THREAD…]", Short: "Check the hash chain of every thread, or of those named",
		RunE: func(c *cobra.Command, args []string) error { return m.verify(c.Context(), args) },
	})
	return c
}

func (m *Main) verify(ctx context.Context, names []string) error {
	data, err := durable.Open(m.Data)
	if err != nil {
		return err
	}
	users, err := data.Sub("users")
	if err != nil {
		return err
	}
	threads, err := m.threads(ctx, users, names)
	if err != nil {
		return err
	}
	log, err := audit.Open(users, audit.Options{})
	if err != nil {
		return err
	}
	broken := 0
	for _, t := range threads {
		v, err := log.Verify(ctx, t)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			broken++
			_, _ = fmt.Fprintf(m.Out, "%s: %s\n", t, inWords(err))
		case v.OK:
			_, _ = fmt.Fprintf(m.Out, "%s: %s, the chain is whole\n", t, several(int(v.Records), "record"))
		default:
			broken++
			_, _ = fmt.Fprintf(m.Out, "%s: the chain breaks at line %d: %s\n", t, v.Line, v.Why)
		}
	}
	if len(threads) == 0 {
		_, _ = fmt.Fprintln(m.Out, "no threads yet")
	}
	if broken > 0 {
		return errQuiet
	}
	return nil
}

func (m *Main) threads(ctx context.Context, users *durable.Dir, names []string) ([]schemas.ThreadID, error) {
	if len(names) == 0 {
		store, err := mcpstore.Open(users, mcpstore.Options{})
		if err != nil {
			return nil, err
		}
		return store.Threads(ctx)
	}
	var threads []schemas.ThreadID
	for _, n := range names {
		t := schemas.ThreadID(n)
		if !t.Valid() || !users.Has(n) {
			return nil, &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("there is no thread %q", n), Hint: "bobbin audit verify checks all of them"}
		}
		threads = append(threads, t)
	}
	return threads, nil
}
