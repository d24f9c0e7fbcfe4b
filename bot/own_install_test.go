package bot_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// shop installs packages in memory, after a yes alone.
type shop struct {
	asked     []schemas.Package
	installed []string
	removed   []string
	fails     error
	takes     time.Duration
}

func (s *shop) Resolve(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, p schemas.Package) (schemas.PackagePlan, error) {
	s.asked = append(s.asked, p)
	if p.Kind == schemas.Git && !strings.HasPrefix(p.Spec, "https://") {
		return schemas.PackagePlan{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "git installs need an https:// URL"}
	}
	server := schemas.Server{Name: p.Name, Type: schemas.Stdio, Command: "/workspace/external-mcp/" + p.Name + "/bin/start"}
	if len(p.Start) > 0 {
		server.Command, server.Args = p.Start[0], p.Start[1:]
	}
	return schemas.PackagePlan{Spec: p, Package: p.Spec, Version: "1.2.3", Integrity: "sha512-abc", Folder: "/workspace/external-mcp/" + p.Name,
		Commands: [][]string{{"npm", "ci"}}, Env: []string{"API_BASE_URL"}, Server: server}, nil
}

func (s *shop) Install(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, p schemas.PackagePlan, progress func(string)) (schemas.PackageLog, error) {
	progress("added 12 packages")
	time.Sleep(s.takes)
	if s.fails != nil {
		return schemas.PackageLog{Text: "npm error code E404\n"}, s.fails
	}
	s.installed = append(s.installed, string(m)+" "+p.Package+"@"+p.Version)
	return schemas.PackageLog{Text: "added 12 packages\n", Server: p.Server}, nil
}

func (s *shop) Uninstall(_ context.Context, _ schemas.ThreadID, _ schemas.MemberID, x schemas.Server) error {
	s.removed = append(s.removed, x.Name)
	return nil
}

func (s *shop) Upgrade(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server, string) (schemas.PackageUpgrade, error) {
	return schemas.PackageUpgrade{}, &schemas.Error{Code: schemas.CodeMissing, Text: "not here"}
}

func (s *shop) Folder(x schemas.Server) (string, bool) {
	return "/workspace/external-mcp/" + x.Name, len(s.installed) > 0
}

const npm = `{"name": "my-tools", "install": {"type": "npm", "spec": "@acme/my-mcp-server"}, "start": {"command": "node", "args": ["/workspace/external-mcp/my-tools/server.js"]},
	"env": {"API_BASE_URL": "` + address + `", "GITHUB_TOKEN": "` + secret + `"}}`

func TestInstallOwn(t *testing.T) {
	s := &shop{}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.offers("my-tools", "search")
		x := w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		r := card(t, ch)
		w.replies = append(w.replies, r)
		want(t, r, "the assistant wants to install my-tools, for @alice", "@acme/my-mcp-server", "1.2.3", "API_BASE_URL="+address, "GITHUB_TOKEN=***, 35 characters", "held in memory until bobbin ends")
		if len(s.installed) != 0 || !r.Private {
			t.Fatal("installed before the yes, or everybody sees the values")
		}
		want(t, w.press(mallory(), r, "Confirm"), "only @alice can confirm")
		w.press(alice(), r, "Show everything")
		w.press(alice(), r, "Confirm")
		got := x.ok(false)
		if got["state"] != "connected" || fmt.Sprint(got["tools"]) != "[ext_my-tools_search]" || got["log"] != "added 12 packages" {
			t.Errorf("%v", got)
		}
		if fmt.Sprint(s.installed) != "[alice @acme/my-mcp-server@1.2.3]" || s.asked[0].Start[0] != "node" || s.asked[0].Name != "my-tools" {
			t.Errorf("%v %+v", s.installed, s.asked)
		}
		if e := w.cfg.Entries[0]; e.Command != "node" || e.Env["API_BASE_URL"] != "${input:API_BASE_URL}" || len(w.held) != 2 || len(w.vault) != 2 {
			t.Errorf("%+v, %d held", e, len(w.held))
		}
	}, func(o *bot.Options) { o.Install, o.Sandboxes = s, &boxes{} })
}

func TestInstallOwn_No(t *testing.T) {
	s := &shop{}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.own(t.Context(), alice(), "auto_install_and_connect_mcp", `{"name":"x","install":{"type":"git","spec":"git@github.com:a/b"}}`).fails(schemas.CodeInvalid, "git installs need an https:// URL")
		w.own(t.Context(), alice(), "auto_install_and_connect_mcp", `{"name":"a/b","install":{"type":"npm","spec":"x"}}`).fails(schemas.CodeInvalid, "no name for a server")
		w.own(t.Context(), alice(), "auto_install_and_connect_mcp", `{"name":"x","install":{"type":"npm","spec":"x"},"env":{"A":"${input:B}"}}`).fails(schemas.CodeInvalid, "env A")
		x := w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		w.press(alice(), card(t, ch), "Cancel")
		x.fails(schemas.CodeDenied, "cancelled")
		x = w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		r := card(t, ch)
		x.fails(schemas.CodeExpired)
		wantCode(t, w.press(alice(), r, "Confirm"), schemas.CodeExpired)
		for len(ch) > 0 {
			<-ch
		}
		s.fails = &schemas.Error{Code: schemas.CodeFailed, Text: "npm exited with 1"}
		x = w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		w.press(alice(), card(t, ch), "Confirm")
		got := x.ok(true)
		if got["message"] != "NOT connected, nothing stored" || !strings.Contains(fmt.Sprint(got["why"]), "npm exited with 1") || got["log"] != "npm error code E404" {
			t.Errorf("%v", got)
		}
		if len(w.cfg.Entries) != 0 || len(w.vault) != 0 || len(s.installed) != 0 {
			t.Errorf("%+v %v", w.cfg.Entries, s.installed)
		}
	}, func(o *bot.Options) { o.Install, o.Sandboxes = s, &boxes{} })
}

// What was installed and does not start is taken back whole.
func TestInstallOwn_DoesNotStart(t *testing.T) {
	s := &shop{}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.state["my-tools"] = schemas.Status{State: schemas.Failed, Why: "exited with 1"}
		x := w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		w.press(alice(), card(t, ch), "Confirm")
		if got := x.ok(true); got["message"] != "NOT connected, nothing stored" {
			t.Errorf("%v", got)
		}
		if len(w.cfg.Entries) != 0 || len(w.vault) != 0 || fmt.Sprint(s.removed) != "[my-tools]" {
			t.Errorf("%+v %v", w.cfg.Entries, s.removed)
		}
	}, func(o *bot.Options) { o.Install, o.Sandboxes = s, &boxes{} })
}

func TestInstallOwn_NotHere(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm).fails(schemas.CodeMissing, "no containers here")
	})
}

// A yes in the last moment is waited for, however long it takes; when the assistant is stopped meanwhile, it says what it does not know.
func TestInstallOwn_LongerThanTheCard(t *testing.T) {
	s := &shop{takes: 8 * time.Minute}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		var press sync.WaitGroup
		x := w.own(t.Context(), alice(), "auto_install_and_connect_mcp", npm)
		r := card(t, ch)
		time.Sleep(9 * time.Minute)
		press.Go(func() { w.press(alice(), r, "Confirm") })
		press.Wait()
		if got := x.ok(false); got["state"] != "connected" {
			t.Errorf("%v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		x = w.own(ctx, alice(), "auto_install_and_connect_mcp", strings.ReplaceAll(npm, "my-tools", "more"))
		r = card(t, ch)
		press.Go(func() { w.press(alice(), r, "Confirm") })
		time.Sleep(time.Minute)
		cancel()
		x.fails(schemas.CodeUnknown, "list_external_mcp")
		press.Wait()
		if len(w.cfg.Entries) != 2 {
			t.Errorf("%+v", w.cfg.Entries)
		}
	}, func(o *bot.Options) { o.Install, o.Sandboxes = s, &boxes{} })
}
