package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bobbin/schemas"
)

// How a check came out.
const (
	fine    = "ok"
	warning = "warning"
	problem = "problem"
)

// finding is what one check says.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warning or problem
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"` // the next step
}

// doctor looks at a deployment. It mends nothing by itself.
type doctor struct {
	m              *Main
	discord        discordFlags
	public, listen string
	online         bool
	now            func() time.Time

	mu    sync.Mutex
	found []finding
}

func (m *Main) doctorCommand() *cobra.Command {
	var asJSON bool
	d := &doctor{m: m, now: time.Now}
	c := &cobra.Command{
		Use: "doctor", Annotations: wires(), Short: "Check this deployment, and say what to do about what is wrong", Args: cobra.NoArgs,
		Long: "Looks at the data folder, the vault, audit logs, threads' files, the container engine, models, Discord and the public address, with the same\n" +
			"flags and environment as bobbin serve. It mends nothing by itself, and may run beside it. The exit code is 1 if there is a problem.",
		RunE: func(c *cobra.Command, _ []string) error { return d.run(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.Flags().BoolVar(&d.online, "online", false, "ask Discord whose token it is, too")
	c.Flags().StringVar(&d.public, "public-url", "", "as for bobbin serve (BOBBIN_PUBLIC_URL)")
	c.Flags().StringVar(&d.listen, "listen", "127.0.0.1:8080", "as for bobbin serve (BOBBIN_LISTEN)")
	d.discord.add(c.Flags())
	return c
}

func (d *doctor) run(ctx context.Context, asJSON bool) error {
	if d.data(ctx) {
		d.vault()
		d.threads(ctx)
		d.operated(ctx)
	}
	var wg sync.WaitGroup
	for _, check := range []func(context.Context){d.sandbox, d.page, d.models, d.onDiscord, d.address} {
		wg.Go(func() { check(ctx) })
	}
	wg.Wait()
	return d.report(asJSON)
}

func (d *doctor) report(asJSON bool) error {
	bad, warned := 0, 0
	order := []string{"data", "space", "vault", "files", "audit", "mcps.yaml", "sandbox", "programs", "page", "model", "discord", "public-url", "clock"}
	slices.SortStableFunc(d.found, func(a, b finding) int {
		return slices.Index(order, a.Check) - slices.Index(order, b.Check)
	})
	for _, f := range d.found {
		switch f.State {
		case problem:
			bad++
		case warning:
			warned++
		}
	}
	var err error
	if bad > 0 {
		err = errQuiet
	}
	if asJSON {
		return errors.Join(d.m.printJSON(map[string]any{"ok": bad == 0, "version": version, "checks": d.found}), err)
	}
	d.m.sayf("bobbin %s, data folder %s", version, d.m.Data)
	for _, f := range d.found {
		d.m.sayf("%-8s %-11s %s", f.State, f.Check, f.Text)
		if f.Hint != "" {
			d.m.sayf("%-20s → %s", "", f.Hint)
		}
	}
	d.m.sayf("%s", summary(bad, warned))
	return err
}

func summary(bad, warned int) string {
	switch {
	case bad+warned == 0:
		return "everything is well"
	case bad == 0:
		return several(warned, warning)
	case warned == 0:
		return several(bad, problem)
	}
	return several(bad, problem) + ", " + several(warned, warning)
}

func several(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (d *doctor) say(state, check, hint, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, finding{check, state, fmt.Sprintf(format, args...), hint})
}

func (d *doctor) ok(check, format string, args ...any) { d.say(fine, check, "", format, args...) }

// fault says an error in its own words; one without words is only named.
func (d *doctor) fault(state, check, otherwise string, err error) {
	e, ok := errors.AsType[*schemas.Error](err)
	switch {
	case ok:
		d.say(state, check, e.Hint, "%s", e.Text)
	case errors.Is(err, errUsage):
		d.say(state, check, "bobbin serve --help", "%s", strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
	default:
		d.say(state, check, otherwise, "%s", schemas.Clean(err.Error(), true))
	}
}

func size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
