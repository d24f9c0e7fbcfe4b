package main

import (
	"cmp"
	"context"
	"fmt"

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
			return m.tellStarted(s)
		}
		u, err := o.Newer(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		if u.Note != "" {
			m.warnf("%s", u.Note)
		}
		switch {
		case u.New.ID == u.Old.ID && u.Note != "":
			return m.told(u, "%s keeps the version of %s that is here", u.Server, u.Image)
		case u.New.ID == u.Old.ID:
			return m.told(u, "%s has the newest version of %s", u.Server, u.Image)
		}
		if !m.JSON {
			m.sayf("%s  %s\n- %s\n+ %s", u.Server, u.Image, versionLine(u.Old), versionLine(u.New))
		}
		if !yes {
			if ok, err := m.agreed("restart "+u.Server+" with it?", u); !ok {
				return err
			}
		}
		s, err := o.Apply(ctx, u, m.step(u.Server))
		if err != nil {
			return err
		}
		return m.tellStarted(s)
	})
	return c
}

func versionLine(i operator.Image) string {
	return fmt.Sprintf("%s  %s  made %s", i.ID, cmp.Or(i.Version, "no version"), cmp.Or(i.Created, "at an unknown time"))
}
