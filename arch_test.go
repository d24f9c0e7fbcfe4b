// Package bobbin_test holds the plan of the house and checks that the code keeps to it. It parses files itself, because the
// test cache does not see what another process reads.
package bobbin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms is the plan: each room and which rooms of ours it may import beside schemas and the leaves. "*" is everything.
var rooms = map[string][]string{
	"cmd/bobbin":                {"*"},
	"host":                      {"*"},
	"examples/embed":            {"bot", "host"},
	"examples/discord":          {"bot", "bot/discord", "host"},
	"bot/discord":               {"bot", "bot/discord/internal/wire", "bot/discord/internal/draw", "bot/discord/internal/link"},
	"bot/discord/discordtest":   nil,
	"bot/discord/internal/draw": {"bot", "bot/discord/internal/wire"},
	"bot/discord/internal/link": {"bot/discord/internal/wire"},
	"bot/discord/internal/wire": nil,
	"bot/web":                   {"bot"},
	"bot/terminal":              {"bot"},
	"bot":                       {"bot/internal/words", "bot/internal/view", "bot/internal/form", "bot/internal/desk", "bot/internal/line", "bot/internal/own", "bot/internal/rule"},
	"bot/internal/desk":         {"bot/internal/words", "bot/internal/view"},
	"bot/internal/line":         {"bot/internal/words", "bot/internal/view"},
	"bot/internal/own":          {"bot/internal/words"},
	"bot/internal/rule":         {"bot/internal/words", "bot/internal/view", "bot/internal/form", "bot/internal/desk"},
	"bot/internal/form":         {"bot/internal/words", "bot/internal/view"},
	"bot/internal/view":         {"bot/internal/words"},
	"bot/internal/words":        nil,
	"mcpstore":                  {"mcpstore/internal/config"},
	"mcpstore/internal/config":  nil,
	"registry":                  {"registry/internal/session"},
	"registry/internal/session": nil,
	"agent":                     nil,
	"gateway":                   nil,
	"inspect":                   nil,
	"operator":                  {"internal/engine"},
	"agent/model":               {"agent", "agent/model/anthropic", "agent/model/openai", "agent/model/gemini", "agent/model/internal/link"},
	"agent/model/anthropic":     {"agent", "agent/model/internal/link"},
	"agent/model/openai":        {"agent", "agent/model/internal/link"},
	"agent/model/gemini":        {"agent", "agent/model/internal/link"},
	"agent/model/internal/link": {"agent"},
	"agent/model/modeltest":     nil,
	"observe":                   {"agent"},
	"oauth":                     nil,
	"egress":                    nil,
	"proxy":                     nil,
	"sandbox":                   {"internal/engine"},
	"install":                   nil,
	"vault":                     nil,
	"audit":                     nil,
	"schemas":                   nil,
	"internal/engine":           nil,
	"internal/durable":          nil,
	"internal/jsonscan":         nil,
	"internal/lazy":             nil,
	"internal/leash":            nil,
	"internal/safehttp":         nil,
	"internal/socket":           nil,
	"internal/look":             nil,
	"internal/browsertest":      nil,
}

// leaves may be imported by every room, and import none.
var leaves = []string{"internal/durable", "internal/jsonscan", "internal/lazy", "internal/leash", "internal/look", "internal/safehttp", "internal/socket"}

// only lists libraries that stay in few rooms, with the reason.
var only = map[string]struct {
	rooms  []string
	reason string
}{
	"github.com/mark3labs/mcp-go":   {[]string{"registry", "registry/internal/session"}, "MCP library types stop at the registry's wall"},
	"github.com/fsnotify/fsnotify":  {[]string{"mcpstore"}, "one watcher serves hand edits and commits alike"},
	"golang.org/x/oauth2":           {[]string{"oauth"}, "tokens are handled at one place"},
	"os/exec":                       {[]string{"sandbox", "proxy", "internal/leash", "internal/browsertest"}, "every program starts at one place on this machine and at one inside of a sandbox, which also ends it"},
	"github.com/moby/moby":          {[]string{"sandbox", "operator", "internal/engine"}, "who can ask the engine for a container is root: it is asked at one place for members, at one for the operator"},
	"github.com/spf13/cobra":        {[]string{"cmd/bobbin"}, "flags belong to the wiring"},
	"github.com/gofrs/flock":        {[]string{"internal/durable", "audit"}, "locks between processes are made by the leaf"},
	"github.com/getkin/kin-openapi": {[]string{"bot/discord/discordtest"}, "a description of somebody's API is for tests"},
	"github.com/gorilla/websocket":  {[]string{"bot/discord/internal/link", "bot/discord/discordtest"}, "it is discordgo's, and stays beside it"},
	"github.com/bwmarrin/discordgo": {[]string{"bot/discord", "bot/discord/internal/link", "examples/discord"}, "a door keeps its platform to itself"},

	"github.com/anthropics/anthropic-sdk-go": {[]string{"agent/model/anthropic"}, "a provider's SDK stays behind agent.Provider"},
	"github.com/openai/openai-go":            {[]string{"agent/model/openai"}, "a provider's SDK stays behind agent.Provider"},
	"google.golang.org/genai":                {[]string{"agent/model/gemini"}, "a provider's SDK stays behind agent.Provider"},
}

// banned names calls that no code outside tests may make, with the rooms excepted and the reason.
var banned = []struct {
	call   string
	except []string
	reason string
}{
	{"http.DefaultClient", nil, "a URL that somebody supplied goes through the guarded client"},
	{"http.DefaultTransport", []string{"internal/safehttp"}, "a URL that somebody supplied goes through the guarded client"},
	{"http.Get", nil, "a URL that somebody supplied goes through the guarded client"},
	{"http.Post", nil, "a URL that somebody supplied goes through the guarded client"},
	{"os.WriteFile", []string{"internal/browsertest"}, "files are written by durable, which a crash cannot tear"},
	{"context.Background", []string{"cmd/bobbin", "examples/embed", "examples/discord"}, "somebody must be able to end every piece of work"},
	{"context.TODO", nil, "somebody must be able to end every piece of work"},
}

func TestWalls(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		dir := path.Dir(f.name)
		if dir == "." {
			continue
		}
		seen[dir] = true
		allowed, known := rooms[dir]
		if !known {
			t.Errorf("%s: the plan has no room %q; add it to the table and to docs/ARCHITECTURE.md, with the reason", f.name, dir)
			continue
		}
		for _, imp := range f.ast.Imports {
			lib, _ := strconv.Unquote(imp.Path.Value)
			if own, ok := strings.CutPrefix(lib, "bobbin/"); ok {
				checkOwn(t, f, dir, own, allowed)
				continue
			}
			for prefix, rule := range only {
				if (lib == prefix || strings.HasPrefix(lib, prefix+"/")) && !f.test && !slices.Contains(rule.rooms, dir) {
					t.Errorf("%s imports %s: %s", f.name, lib, rule.reason)
				}
			}
		}
	}
	for room := range rooms {
		if !seen[room] {
			t.Errorf("the plan names %q, which does not exist", room)
		}
	}
}

func checkOwn(t *testing.T, f goFile, dir, own string, allowed []string) {
	leaf := slices.Contains(leaves, dir)
	switch {
	case own == dir, slices.Contains(allowed, "*"), slices.Contains(allowed, own):
	case f.test && strings.HasSuffix(own, "test"):
	case !leaf && dir != "schemas" && (own == "schemas" || slices.Contains(leaves, own)):
	default:
		t.Errorf("%s imports %s: a room imports schemas, leaves, and no other room", f.name, own)
	}
}

func TestBannedCalls(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, b := range banned {
				if pkg.Name+"."+sel.Sel.Name == b.call && !slices.Contains(b.except, path.Dir(f.name)) {
					t.Errorf("%s uses %s: %s", f.name, b.call, b.reason)
				}
			}
			return true
		})
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init: things are wired by hand, once", f.name)
			}
		}
	}
}

// TestLazyRegexps compiles what lazy.Regexp compiles only when somebody needs it.
func TestLazyRegexps(t *testing.T) {
	found := 0
	for _, f := range goFiles(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Regexp" || exprName(sel.X) != "lazy" {
				return true
			}
			found++
			if expr, ok := literal(call.Args[0]); !ok {
				t.Errorf("%s: an expression of lazy.Regexp is put together from literals, so that a test can compile it", f.name)
			} else if _, err := regexp.Compile(expr); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			return true
		})
	}
	if found == 0 {
		t.Error("there is none")
	}
}

func exprName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// literal is the text of string literals that are added.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, okX := literal(e.X)
		y, okY := literal(e.Y)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}

// TestDocs checks that every path and command that a guide names exists.
func TestDocs(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	span := regexp.MustCompile("`([^`\n]+)`")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, doc := range append(docs, "README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
			}
		}
		for _, m := range span.FindAllStringSubmatch(string(text), -1) {
			p := m[1]
			top, _, _ := strings.Cut(p, "/")
			if !slices.Contains(slices.Collect(maps.Keys(topFolders(t))), top) || strings.ContainsAny(p, " <>*…") || top == "data" {
				continue
			}
			if _, err := os.Stat(p); err != nil {
				t.Errorf("%s names `%s`, which does not exist", doc, p)
			}
		}
	}
}

func topFolders(t *testing.T) map[string]bool {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	tops := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			tops[e.Name()] = true
		}
	}
	return tops
}

type goFile struct {
	name string
	test bool
	ast  *ast.File
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"data", "bin", "node_modules", "testdata", "docs"}, name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.SkipObjectResolution)
		files = append(files, goFile{filepath.ToSlash(p), strings.HasSuffix(name, "_test.go"), f})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
