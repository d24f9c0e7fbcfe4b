//go:build unix

package sandbox_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/schemas"
)

func TestLaunch_Environment(t *testing.T) {
	for name, value := range map[string]string{
		"DISCORD_TOKEN": "canary", "OPENAI_API_KEY": "canary", "BOBBIN_DATA": "canary", "NODE_OPTIONS": "canary", "LC_ALL": "C.UTF-8", "USER": "op",
	} {
		t.Setenv(name, value)
	}
	h := open(t)
	l := launch("env", h.tag)
	l.Env["GITHUB_TOKEN"], l.Env["USER"] = schemas.NewSecret("abc"), schemas.NewSecret("mine")
	c, err := h.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(c)
	got := "\n" + string(out)
	for _, want := range []string{"\nGITHUB_TOKEN=abc\n", "\nUSER=mine\n", "\nLC_ALL=C.UTF-8\n", "\nPATH=" + os.Getenv("PATH") + "\n", "\nBOBBIN_SERVER="} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "canary") {
		t.Error(got)
	}
}

func TestLaunch_Folder(t *testing.T) {
	h := open(t)
	outside := t.TempDir()
	workspace := filepath.Join(h.work, "alice")
	_ = os.MkdirAll(filepath.Join(workspace, "sub"), 0o700)
	_ = os.Symlink(outside, filepath.Join(workspace, "link"))
	_ = os.WriteFile(filepath.Join(outside, "file"), nil, 0o600)
	for cwd, want := range map[string]string{
		"": workspace, "sub": filepath.Join(workspace, "sub"), outside: outside,
		"..": "", "link": "", "sub/../..": "", "none": "", filepath.Join(outside, "none"): "", filepath.Join(outside, "file"): "",
	} {
		l := launch("cwd", h.tag)
		l.Cwd = cwd
		c, err := h.Launch(t.Context(), l)
		if want == "" {
			if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Code != schemas.CodeInvalid || e.Hint == "" {
				t.Errorf("%q: %v", cwd, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", cwd, err)
			continue
		}
		if got := line(t, c); got != want {
			t.Errorf("%q: runs in %q", cwd, got)
		}
	}
}

func TestLaunch_Refuses(t *testing.T) {
	h := open(t)
	script, plain, broken := filepath.Join(t.TempDir(), "script"), filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "broken")
	_ = os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700)
	_ = os.WriteFile(plain, []byte("x"), 0o600)
	_ = os.WriteFile(broken, []byte("\x7fELF nonsense"), 0o700)
	env := func(name, value string) func(*schemas.Launch) {
		return func(l *schemas.Launch) { l.Env[name] = schemas.NewSecret(value) }
	}
	command := func(c string) func(*schemas.Launch) { return func(l *schemas.Launch) { l.Command = c } }
	for _, c := range []struct {
		change func(*schemas.Launch)
		code   schemas.Code
		text   string
	}{
		{command(""), schemas.CodeInvalid, "there is no command"},
		{command("nope"), schemas.CodeMissing, `"nope" was not found on this machine`},
		{command("/no/such/program"), schemas.CodeMissing, "was not found"},
		{command("./nope"), schemas.CodeMissing, "was not found"},
		{command("a\x00b"), schemas.CodeInvalid, "the command has a zero byte"},
		{command(script), schemas.CodeMissing, "interpreter was not found"},
		{command(plain), schemas.CodeMissing, "may not be executed"},
		{command(broken), schemas.CodeMissing, "not a program for this machine"},
		{func(l *schemas.Launch) { l.Args = make([]string, 65) }, schemas.CodeTooLarge, "65 arguments"},
		{func(l *schemas.Launch) { l.Args = []string{strings.Repeat("x", 5000)} }, schemas.CodeTooLarge, "argument 1 is too long"},
		{func(l *schemas.Launch) { l.Owner = "../x" }, schemas.CodeInvalid, "no owner"},
		{env("A", "x\x00y"), schemas.CodeInvalid, "the value of A has a zero byte"},
		{env("A=B", "x"), schemas.CodeInvalid, `"A=B" is not a name`},
		{env("", "x"), schemas.CodeInvalid, "not a name"},
		{env("A", strings.Repeat("x", 40<<10)), schemas.CodeTooLarge, "the value of A"},
		{env("BOBBIN_SERVER", "x"), schemas.CodeDenied, "belongs to bobbin"},
		{env("NODE_OPTIONS", "--require x"), schemas.CodeDenied, "NODE_OPTIONS changes what runs; it is not allowed outside a container"},
		{env("ld_preload", "x"), schemas.CodeDenied, "changes what runs"},
		{env("DYLD_INSERT_LIBRARIES", "x"), schemas.CodeDenied, "changes what runs"},
		{env("BASH_FUNC_ls%%", "x"), schemas.CodeDenied, "changes what runs"},
		{env("RUBYOPT", "x"), schemas.CodeDenied, "changes what runs"},
	} {
		l := launch("echo", h.tag)
		c.change(&l)
		got, err := h.Launch(t.Context(), l)
		e, ok := errors.AsType[*schemas.Error](err)
		if got != nil || !ok || e.Code != c.code || !strings.Contains(e.Text, c.text) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Launch(ctx, launch("echo", h.tag)); schemas.CodeOf(err) != schemas.CodeNotReady {
		t.Error(err)
	}
}
