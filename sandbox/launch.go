package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"bobbin/schemas"
)

const (
	maxArgs    = 64
	maxArg     = 4 << 10
	maxEnv     = 64
	maxValue   = 32 << 10
	markName   = "BOBBIN_SERVER"
	plainPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	scriptMark = `"%&|<>^!` + "\r\n"
)

// check refuses what no program may be started with on this machine.
func check(l schemas.Launch) error {
	if err := checkSize(l); err != nil {
		return err
	}
	for name := range l.Env {
		if changesProgram(name) {
			return refusal(schemas.CodeDenied, name+" changes what runs; it is not allowed outside a container", "remove "+name+", or run servers in containers")
		}
	}
	return nil
}

// checkSize refuses what no program may be started with anywhere.
func checkSize(l schemas.Launch) error {
	if !l.Owner.Valid() {
		return refusal(schemas.CodeInvalid, "the server has no owner", "")
	}
	if l.Command == "" {
		return refusal(schemas.CodeInvalid, "there is no command", `add "command": the program to start`)
	}
	if len(l.Args) > maxArgs {
		return refusal(schemas.CodeTooLarge, fmt.Sprintf("%d arguments are too many", len(l.Args)), fmt.Sprintf("use %d at most", maxArgs))
	}
	for i, arg := range slices.Concat([]string{l.Command, l.Cwd}, l.Args) {
		what := fmt.Sprintf("argument %d", i-1)
		if i < 2 {
			what = []string{"the command", "the working folder"}[i]
		}
		if strings.ContainsRune(arg, 0) {
			return refusal(schemas.CodeInvalid, what+" has a zero byte in it", "take it out")
		}
		if len(arg) > maxArg {
			return refusal(schemas.CodeTooLarge, what+" is too long", fmt.Sprintf("use %d bytes at most", maxArg))
		}
	}
	if len(l.Env) > maxEnv {
		return refusal(schemas.CodeTooLarge, fmt.Sprintf("%d environment variables are too many", len(l.Env)), fmt.Sprintf("use %d at most", maxEnv))
	}
	for name, value := range l.Env {
		if err := checkVariable(name, value); err != nil {
			return err
		}
	}
	return nil
}

func checkVariable(name string, value schemas.Secret) error {
	switch v := value.Reveal(); {
	case name == "" || len(name) > maxArg || strings.ContainsAny(name, "=\x00\r\n"):
		return refusal(schemas.CodeInvalid, fmt.Sprintf("%.40q is not a name for an environment variable", name), "use letters, digits and _")
	case strings.EqualFold(name, markName):
		return refusal(schemas.CodeDenied, name+" belongs to bobbin", "use another name")
	case strings.ContainsRune(v, 0):
		return refusal(schemas.CodeInvalid, "the value of "+name+" has a zero byte in it", "set it again")
	case len(v) > maxValue:
		return refusal(schemas.CodeTooLarge, "the value of "+name+" is too long", fmt.Sprintf("use %d bytes at most", maxValue))
	}
	return nil
}

// changesProgram names the variables by which loaders and interpreters run code that the command does not show. PATH and
// PYTHONPATH pass: they are ordinary in people's configurations, and the card shows them.
func changesProgram(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"NODE_OPTIONS", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "RUBYOPT"}, name)
}

// environment gives the few variables of ours that programs need, then the server's own, then the mark. Nothing else of
// ours is handed on: it holds bobbin's tokens.
func environment(ours []string, own map[string]schemas.Secret, id string) []string {
	pass := []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER", "LOGNAME"}
	if runtime.GOOS == "windows" {
		pass = append(pass, "SYSTEMROOT", "PATHEXT", "COMSPEC", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP", "TMP")
	}
	env := []string{}
	if runtime.GOOS != "windows" {
		env = append(env, "PATH="+plainPath)
	}
	for _, pair := range ours {
		name, _, _ := strings.Cut(pair, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		if slices.Contains(pass, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, pair)
		}
	}
	names := make([]string, 0, len(own))
	for name := range own {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = append(env, name+"="+own[name].Reveal())
	}
	return append(env, markName+"="+id) // exec.Cmd keeps the last of equal names
}

func valueOf(env []string, name string) string {
	for _, pair := range slices.Backward(env) {
		n, value, _ := strings.Cut(pair, "=")
		if n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

// folder finds the working folder.
func (p *Process) folder(l schemas.Launch) (string, error) {
	if filepath.IsAbs(l.Cwd) {
		info, err := os.Stat(l.Cwd)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", refusal(schemas.CodeInvalid, fmt.Sprintf("the working folder %q does not exist on this machine", l.Cwd), "make it, or change cwd")
		case err != nil:
			return "", &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("the working folder %q cannot be opened", l.Cwd), Hint: "look at its permissions, or change cwd", Err: err}
		case !info.IsDir():
			return "", refusal(schemas.CodeInvalid, fmt.Sprintf("the working folder %q is a file", l.Cwd), "change cwd to a folder")
		}
		return l.Cwd, nil
	}
	dir, err := p.work.Sub(string(l.Owner))
	if err != nil {
		return "", &schemas.Error{Code: schemas.CodeMissing, Text: "the workspace of the server's owner cannot be opened", Hint: "ask the operator to look at the data folder", Err: err}
	}
	defer dir.Close()
	if l.Cwd == "" {
		return dir.Path(), nil
	}
	root, err := os.OpenRoot(dir.Path())
	if err != nil {
		return "", &schemas.Error{Code: schemas.CodeMissing, Text: "the workspace of the server's owner cannot be opened", Hint: "ask the operator to look at the data folder", Err: err}
	}
	defer root.Close()
	if info, err := root.Stat(l.Cwd); err != nil || !info.IsDir() { // os.Root follows nothing out of the workspace
		return "", &schemas.Error{
			Code: schemas.CodeInvalid, Text: fmt.Sprintf("there is no folder %q in the server's workspace", l.Cwd),
			Hint: "leave cwd out, or give a full path", Err: err,
		}
	}
	return filepath.Join(dir.Path(), l.Cwd), nil
}

// lookup finds the program as execvp(3) would in the child's environment, but never in the working folder.
func lookup(command string, env []string, dir string) (string, error) {
	folders := []string{""}
	switch {
	case filepath.IsAbs(command):
	case strings.ContainsAny(command, `/`+string(filepath.Separator)):
		folders = []string{dir}
	default:
		folders = filepath.SplitList(valueOf(env, "PATH"))
	}
	suffixes := []string{""}
	if runtime.GOOS == "windows" && filepath.Ext(command) == "" {
		suffixes = strings.Split(strings.ToLower(cmpOr(valueOf(env, "PATHEXT"), ".com;.exe;.bat;.cmd")), ";")
	}
	found := ""
	for _, folder := range folders {
		for _, suffix := range suffixes {
			path := filepath.Join(folder, command+suffix)
			info, err := os.Stat(path)
			if err != nil || info.IsDir() || !filepath.IsAbs(path) {
				continue
			}
			if runtime.GOOS == "windows" || info.Mode()&0o111 != 0 {
				return path, nil
			}
			found = path
		}
	}
	if found != "" {
		return "", refusal(schemas.CodeMissing, fmt.Sprintf("%q is there but may not be executed", found), "make it executable: chmod +x")
	}
	return "", refusal(schemas.CodeMissing, fmt.Sprintf("%q was not found on this machine", command), "install it, or give the full path")
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// checkScript refuses arguments that cmd.exe, which Windows runs for .bat and .cmd files, would read as its own language;
// there is no way to quote them (CVE-2024-24576 has the story).
func checkScript(program string, args []string) error {
	if ext := strings.ToLower(filepath.Ext(program)); runtime.GOOS != "windows" || ext != ".bat" && ext != ".cmd" {
		return nil
	}
	for i, arg := range args {
		if strings.ContainsAny(arg, scriptMark) {
			return refusal(schemas.CodeInvalid, fmt.Sprintf("argument %d has a character that %s cannot get safely", i+1, filepath.Base(program)), "start the program itself, such as node with the path of the script")
		}
	}
	return nil
}

func refusal(code schemas.Code, text, hint string) error {
	return &schemas.Error{Code: code, Text: text, Hint: hint}
}

func closing() error { return refusal(schemas.CodeNotReady, "bobbin is stopping", "") }

// notStarted gives a failed start words.
func notStarted(cmd *exec.Cmd, err error) error {
	e := &schemas.Error{Code: schemas.CodeMissing, Text: fmt.Sprintf("%q could not be started", cmd.Args[0]), Hint: "see the log of bobbin", Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Text, e.Hint = schemas.CodeNotReady, fmt.Sprintf("%q was not started in time", cmd.Args[0]), "try again"
	case errors.Is(err, errClosing):
		return closing()
	case errors.Is(err, syscall.EACCES):
		e.Text, e.Hint = fmt.Sprintf("%q may not be executed here", cmd.Args[0]), "look at the permissions of the program and of the working folder"
	case errors.Is(err, syscall.ENOEXEC):
		e.Text, e.Hint = fmt.Sprintf("%q is not a program for this machine", cmd.Args[0]), "install the one for "+runtime.GOOS+" "+runtime.GOARCH
	case errors.Is(err, syscall.ENOENT):
		e.Text, e.Hint = fmt.Sprintf("%q is a script whose interpreter was not found on this machine", cmd.Args[0]), "see its first line"
	case errors.Is(err, syscall.E2BIG):
		e.Code, e.Text, e.Hint = schemas.CodeTooLarge, "the arguments and variables together are too long", "make them shorter"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Code, e.Text, e.Hint = schemas.CodeNotReady, "this machine has no room for another process", "stop some servers, then try again"
	}
	return e
}
