package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"bobbin/operator"
)

func (m *Main) mcpUpgrade() *cobra.Command {
	var yes, rollback bool
	c := &cobra.Command{
		Use: "upgrade NAME", Short: "Run a newer version of an MCP server's image, once you have seen which", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames,
		Long: "Run a newer version of an MCP server's image, once you have seen which. A server keeps the version that it began with until then;\n--rollback goes back to the one before.",
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&rollback, "rollback", false, "run the version before the last upgrade again")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if rollback {
			s, err := o.Rollback(ctx, args[0], m.step(args[0]))
			if err != nil {
				return err
			}
			m.tellStarted(s)
			return nil
		}
		u, err := o.Newer(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		if u.Note != "" {
			m.warnf("%s", u.Note)
		}
		if u.New.ID == u.Old.ID {
			m.sayf("%s has the newest version of %s", u.Server, u.Image)
			return nil
		}
		m.sayf("%s  %s", u.Server, u.Image)
		m.sayf("- %s", versionLine(u.Old))
		m.sayf("+ %s", versionLine(u.New))
		if !yes && !m.agreed("restart "+u.Server+" with it?") {
			m.sayf("nothing was changed")
			return nil
		}
		s, err := o.Apply(ctx, u, m.step(u.Server))
		if err != nil {
			return err
		}
		m.tellStarted(s)
		return nil
	})
	return c
}

func versionLine(i operator.Image) string {
	return fmt.Sprintf("%s  %s  made %s", i.ID, cmp.Or(i.Version, "no version"), cmp.Or(i.Created, "at an unknown time"))
}

// agreed asks a question; anything but a yes is a no.
func (m *Main) agreed(question string) bool {
	_, _ = fmt.Fprintf(m.Out, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(m.In, 100)).ReadString('\n')
	if err != nil && line == "" {
		_, _ = fmt.Fprintln(m.Out)
	}
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}
