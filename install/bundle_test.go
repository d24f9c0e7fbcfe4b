package install_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"bobbin/install"
	"bobbin/schemas"
)

var update = flag.Bool("update", false, "rewrite the .want files")

// part is one entry of an archive that a test builds.
type part struct {
	name, text string
	mode       fs.FileMode
	raw        func(*zip.FileHeader)
}

// archiveOf builds a ZIP archive; nothing is checked.
func archiveOf(t testing.TB, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, p := range parts {
		h := &zip.FileHeader{Name: p.name, Method: zip.Deflate}
		if p.mode != 0 {
			h.SetMode(p.mode)
		}
		if p.raw != nil {
			p.raw(h)
		}
		f, err := w.CreateHeader(h)
		if err == nil && p.text != "" {
			_, err = io.WriteString(f, p.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// library is the head of a program or library for a system.
func library(system string) string {
	head := make([]byte, 256)
	switch system {
	case "linux x64", "linux arm64":
		copy(head, "\x7fELF\x02\x01\x01")
		binary.LittleEndian.PutUint16(head[18:], map[string]uint16{"linux x64": 62, "linux arm64": 183}[system])
	case "darwin arm64":
		copy(head, "\xcf\xfa\xed\xfe\x0c\x00\x00\x01")
	case "darwin both":
		copy(head, "\xca\xfe\xba\xbe\x00\x00\x00\x02\x01\x00\x00\x07")
		copy(head[28:], "\x01\x00\x00\x0c")
	case "win32 x64":
		copy(head, "MZ")
		head[0x3c] = 0x80
		copy(head[0x80:], "PE\x00\x00\x64\x86")
	default:
		panic(system)
	}
	return string(head)
}

// machine is a sandbox that knows some commands; any other fails the test.
type machine struct {
	t       testing.TB
	answers map[string]string
	put     map[string][]byte
	waiting []string
	ran     []string
}

func newMachine(t testing.TB, system string) *machine {
	return &machine{t: t, put: map[string][]byte{}, answers: map[string]string{
		"mkdir -p /workspace/external-mcp": "", "ls -1A /workspace/external-mcp": "", "uname -s -m": system + "\n",
		"node -p process.execPath": "/usr/bin/node\n", "node -p process.versions.node": "22.4.1\n",
		"python3 -c import sys;print(sys.executable)":                 "/usr/bin/python3\n",
		"python3 -c import platform;print(platform.python_version())": "3.11.2\n",
		"uv --version": "uv 0.8.0\n",
	}}
}

func (m *machine) Exec(_ context.Context, e schemas.Exec) (schemas.Executed, error) {
	line := strings.Join(e.Args, " ")
	m.ran = append(m.ran, line)
	switch {
	case line == "ls -1A /workspace/external-mcp/.bundles":
		if len(m.waiting) == 0 {
			return schemas.Executed{Code: 2}, nil
		}
		return schemas.Executed{Stdout: strings.Join(m.waiting, "\n")}, nil
	case line == "rm -rf /workspace/external-mcp/.bundles":
		m.waiting = nil
		return schemas.Executed{}, nil
	}
	out, ok := m.answers[line]
	if !ok {
		m.t.Errorf("unexpected command %q", line)
		return schemas.Executed{Code: 1}, nil
	}
	if out == "missing" {
		return schemas.Executed{Code: 127}, nil
	}
	return schemas.Executed{Stdout: out}, nil
}

func (m *machine) Put(_ context.Context, who schemas.MemberID, dir, name string, data []byte) error {
	if who != member {
		m.t.Errorf("put for %q", who)
	}
	m.put[dir+"/"+name] = data
	m.waiting = append(m.waiting, filepath.Base(name))
	return nil
}

// unpacked lists what a tar holds, as "mode name".
func unpacked(t testing.TB, data []byte) map[string]string {
	t.Helper()
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(g); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir || h.Uid != 0 || h.Linkname != "" {
			t.Fatalf("%+v, %v", h, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("%04o %s", h.Mode, h.Name)] = string(text)
	}
}

func shown(p schemas.PackagePlan, err error) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		for _, p := range ps {
			line("problem %s\n  at %s", p, p.Pointer)
		}
		return b.String()
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		line("%s (%s)", e.Error(), e.Hint)
		return b.String()
	}
	line("%s %s %s license=%q\n", p.Package, p.Version, p.Integrity[:10], p.License)
	for _, c := range p.Commands {
		line("$ %s", install.Shown(c))
	}
	line("\nserver %s", p.Server.Name)
	line("  command %s", p.Server.Command)
	for _, a := range p.Server.Args {
		line("  arg     %q", a)
	}
	for _, k := range slices.Sorted(maps.Keys(p.Server.Env)) {
		line("  env     %s=%q", k, p.Server.Env[k])
	}
	line("  cwd     %s\n", p.Server.Cwd)
	for _, in := range p.Inputs {
		line("input %s %s password=%v default=%q options=%q optional=%v %s", in.ID, in.Type, in.Password, in.Default, in.Options, slices.Contains(p.Optional, in.ID), in.Description)
	}
	for _, n := range p.Notes {
		line("note %s: %s", n.Kind, n.Text)
	}
	return b.String()
}

// TestBundle_Corpus holds every testdata/bundle/*.txtar, the content of a bundle, against what it is read as. "uname …" before
// the files is the sandbox's system; a file that says "#system OS ARCH" becomes a library for it.
func TestBundle_Corpus(t *testing.T) {
	files, err := filepath.Glob("testdata/bundle/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			system := "Linux x86_64"
			if s, ok := strings.CutPrefix(strings.TrimSpace(string(a.Comment)), "uname "); ok {
				system = s
			}
			var parts []part
			for _, f := range a.Files {
				p := part{name: f.Name, text: string(f.Data)}
				if s, ok := strings.CutPrefix(strings.TrimSpace(p.text), "#system "); ok {
					p.text = library(s)
				}
				parts = append(parts, p)
			}
			m := newMachine(t, system)
			got := shown(install.New(m, m, install.Options{}).Bundle(t.Context(), thread, member, "", archiveOf(t, parts...)))
			got = strings.NewReplacer(waitingOf(m), "SUM").Replace(got)
			want := file + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(text), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func waitingOf(m *machine) string {
	if len(m.waiting) == 0 {
		return "\x00"
	}
	return strings.TrimSuffix(m.waiting[len(m.waiting)-1], ".tgz")
}

func plainManifest(change ...func(map[string]any)) string {
	m := map[string]any{"manifest_version": "0.3", "name": "acme", "version": "1.0.0", "description": "x", "author": map[string]any{"name": "A"},
		"server": map[string]any{"type": "node", "entry_point": "server/index.js", "mcp_config": map[string]any{"command": "node", "args": []any{"${__dirname}/server/index.js"}}}}
	for _, c := range change {
		c(m)
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func plainParts(more ...part) []part {
	return append([]part{{name: "manifest.json", text: plainManifest()}, {name: "server/index.js", text: "// server\n"}}, more...)
}

func bundled(t *testing.T, data []byte) (schemas.PackagePlan, *machine, error) {
	t.Helper()
	m := newMachine(t, "Linux x86_64")
	p, err := install.New(m, m, install.Options{}).Bundle(t.Context(), thread, member, "", data)
	return p, m, err
}

func TestBundle_Hostile(t *testing.T) {
	long := strings.Repeat("d/", 33) + "x"
	link := func(target string) part { return part{name: "server/link", text: target, mode: fs.ModeSymlink | 0o777} }
	tests := map[string]struct {
		parts []part
		want  string
	}{
		"zip slip":         {plainParts(part{name: "../../.bashrc", text: "x"}), "leads out of the bundle"},
		"slip inside":      {plainParts(part{name: "server/../../x", text: "x"}), "leads out of the bundle"},
		"absolute":         {plainParts(part{name: "/etc/passwd", text: "x"}), "leads out of the bundle"},
		"backslash":        {plainParts(part{name: `..\..\x`, text: "x"}), "backslash"},
		"drive":            {plainParts(part{name: "C:/x", text: "x"}), "colon"},
		"stream":           {plainParts(part{name: "server/index.js:evil", text: "x"}), "colon"},
		"dot":              {plainParts(part{name: "./server/x", text: "x"}), "not written plainly"},
		"empty part":       {plainParts(part{name: "server//x", text: "x"}), "not written plainly"},
		"trailing dot":     {plainParts(part{name: "server/x.", text: "x"}), "ends in a dot"},
		"control":          {plainParts(part{name: "server/x\ny", text: "x"}), "cannot be shown"},
		"bidi":             {plainParts(part{name: "server/x\u202ejs.txt", text: "x"}), "cannot be shown"},
		"not utf-8":        {plainParts(part{name: "server/\xff", text: "x"}), "cannot be shown"},
		"deep":             {plainParts(part{name: long, text: "x"}), "too deep"},
		"long":             {plainParts(part{name: strings.Repeat("x", 500), text: "x"}), "too long"},
		"symlink out":      {plainParts(link("/etc/passwd")), "link or a device"},
		"symlink inside":   {plainParts(link("index.js")), "link or a device"},
		"device":           {plainParts(part{name: "dev", mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}), "link or a device"},
		"pipe":             {plainParts(part{name: "fifo", mode: fs.ModeNamedPipe | 0o666}), "link or a device"},
		"folder link":      {plainParts(part{name: "server/sub/", mode: fs.ModeSymlink | 0o777}), "link or a device"},
		"duplicate":        {plainParts(part{name: "server/index.js", text: "evil"}), "one and the same"},
		"two manifests":    {plainParts(part{name: "manifest.json", text: plainManifest()}), "one and the same"},
		"case":             {plainParts(part{name: "server/INDEX.js", text: "evil"}), "one and the same"},
		"case of manifest": {plainParts(part{name: "Manifest.json", text: "evil"}), "one and the same"},
		"case of folder":   {plainParts(part{name: "Server/other.js", text: "evil"}), "one and the same"},
		"composed":         {plainParts(part{name: "caf\u00e9", text: "a"}, part{name: "cafe\u0301", text: "b"}), "one and the same"},
		"file as folder":   {plainParts(part{name: "server/index.js/x", text: "evil"}), "one and the same"},
		"folder as file":   {plainParts(part{name: "server", text: "evil"}), "one and the same"},
		"own name":         {plainParts(part{name: ".bobbin-install.json", text: "{}"}), "bobbin's own"},
		"encrypted":        {plainParts(part{name: "x", text: "x", raw: func(h *zip.FileHeader) { h.Flags |= 1 }}), "encrypted"},
		"nested manifest":  {[]part{{name: "acme/manifest.json", text: plainManifest()}, {name: "acme/server/index.js", text: "x"}}, "pack what is in the folder"},
		"no manifest":      {[]part{{name: "README.md", text: "x"}}, "no manifest.json"},
		"ratio":            {plainParts(part{name: "zeros", text: strings.Repeat("\x00", 32<<20)}), "times its size"},
		"big manifest":     {[]part{{name: "manifest.json", text: plainManifest() + strings.Repeat(" ", 2<<20)}}, "larger than 1 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, m, err := bundled(t, archiveOf(t, tt.parts...))
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok || !strings.Contains(e.Text+" "+e.Hint, tt.want) {
				t.Fatalf("got %v, want words %q", err, tt.want)
			}
			if code := e.Code; code != schemas.CodeInvalid && code != schemas.CodeTooLarge {
				t.Errorf("code %s", code)
			}
			if len(m.ran)+len(m.put) > 0 {
				t.Errorf("something ran before the archive was found bad: %q", m.ran)
			}
		})
	}
}

func TestBundle_NestedManifestIsNoMatter(t *testing.T) {
	other := plainManifest(func(m map[string]any) { m["name"] = "other" })
	p, _, err := bundled(t, archiveOf(t, plainParts(part{name: "server/manifest.json", text: other}, part{name: "node_modules/x/manifest.json", text: "{"})...))
	if err != nil || p.Package != "acme" {
		t.Fatalf("%q, %v", p.Package, err)
	}
}

// TestBundle_Edges changes single bytes that matter in a good archive.
func TestBundle_Edges(t *testing.T) {
	good := archiveOf(t, plainParts()...)
	end := bytes.LastIndex(good, []byte("PK\x05\x06"))
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	entry := bytes.Index(good, []byte("PK\x01\x02"))
	tests := map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "no bundle"},
		"text":            {[]byte(`{"mcpServers": {}}`), "no bundle"},
		"cut":             {good[:len(good)-5], "no bundle"},
		"in front":        {append([]byte("#!/bin/sh\nexit\n"), good...), "something stands around it"},
		"behind":          {append(bytes.Clone(good), "more"...), "no bundle"},
		"in between":      {slices.Concat(good[:end], []byte("PK\x01\x02"), good[end:]), "something stands around it"},
		"many":            {with(end+8, 0x11, 0x27, 0x11, 0x27), "more than 10000 files"},
		"zip64":           {with(end+8, 0xff, 0xff, 0xff, 0xff), "more than 10000 files"},
		"several disks":   {with(end+4, 1), "one part of several"},
		"announces more":  {with(entry+24, 0, 0, 0, 0x7f), "more than 256 MiB"},
		"announces less":  {with(entry+24, 1, 0, 0, 0), "damaged"},
		"unknown packing": {with(entry+10, 12), "not known here"},
		"wrong checksum":  {with(entry+16, 1, 2, 3, 4), "damaged"},
		"broken header":   {with(0, 'X'), "damaged"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := bundled(t, tt.data)
			if e, ok := errors.AsType[*schemas.Error](err); !ok || !strings.Contains(e.Text, tt.want) {
				t.Fatalf("got %v, want words %q", err, tt.want)
			}
		})
	}
	t.Run("comment", func(t *testing.T) {
		if _, _, err := bundled(t, append(with(end+20, 5), "hello"...)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		if _, _, err := bundled(t, make([]byte, 64<<20+1)); schemas.CodeOf(err) != schemas.CodeTooLarge {
			t.Fatal(err)
		}
	})
}

func TestBundle_ManyFiles(t *testing.T) {
	parts := plainParts()
	for i := range 9_998 {
		parts = append(parts, part{name: fmt.Sprintf("node_modules/p%d/index.js", i), text: "x"})
	}
	if _, m, err := bundled(t, archiveOf(t, parts...)); err != nil || len(m.put) != 1 {
		t.Fatalf("%v, %d files put", err, len(m.put))
	}
	if _, _, err := bundled(t, archiveOf(t, append(parts, part{name: "one/more", text: "x"})...)); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Fatalf("10,001 files: %v", err)
	}
}

// TestBundle_CountLies: the end record has 16 bits for the number of entries, so 65,546 can call themselves 10.
func TestBundle_CountLies(t *testing.T) {
	parts := plainParts()
	for i := range 1<<16 + 10 - len(parts) {
		parts = append(parts, part{name: fmt.Sprint(i), raw: func(h *zip.FileHeader) { h.Method = zip.Store }})
	}
	data := archiveOf(t, parts...)
	stop := bytes.LastIndex(data, []byte("PK\x06\x06")) // the directory ends where the record of ZIP64 begins
	start := binary.LittleEndian.Uint64(data[stop+48:])
	end := []byte("PK\x05\x06\x00\x00\x00\x00\x0a\x00\x0a\x00")
	end = binary.LittleEndian.AppendUint32(end, uint32(uint64(stop)-start))
	end = append(binary.LittleEndian.AppendUint32(end, uint32(start)), 0, 0)
	if _, _, err := bundled(t, append(data[:stop:stop], end...)); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Fatal(err)
	}
}

func TestBundle_Signed(t *testing.T) {
	good := archiveOf(t, plainParts()...)
	block := slices.Concat([]byte("MCPB_SIG_V1"), []byte{6, 0, 0, 0}, []byte("PK\x05\x06zz"), []byte("MCPB_SIG_END"))
	declared := bytes.Clone(good)
	binary.LittleEndian.PutUint16(declared[len(declared)-2:], uint16(len(block)))
	for name, data := range map[string][]byte{"appended": append(bytes.Clone(good), block...), "declared as comment": append(declared, block...)} {
		t.Run(name, func(t *testing.T) {
			p, _, err := bundled(t, data)
			if err != nil || !strings.Contains(text(p.Notes), "signature, which is not checked") {
				t.Fatalf("%v\n%s", err, text(p.Notes))
			}
		})
	}
	p, _, err := bundled(t, good)
	if err != nil || strings.Contains(text(p.Notes), "signature") {
		t.Fatalf("%v\n%s", err, text(p.Notes))
	}
}

// TestBundle_Packed holds that what waits in the sandbox are exactly the files, plain, and that programs alone may run.
func TestBundle_Packed(t *testing.T) {
	_, m, err := bundled(t, archiveOf(t, plainParts(part{name: "bin/", mode: fs.ModeDir | 0o777}, part{name: "bin/tool", text: "#!", mode: fs.ModeSetuid | 0o755},
		part{name: "empty/", mode: fs.ModeDir | 0o700})...))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"0644 manifest.json": plainManifest(), "0644 server/index.js": "// server\n", "0755 bin/": "", "0755 bin/tool": "#!", "0755 empty/": ""}
	if d := cmp.Diff(want, unpacked(t, m.put["/workspace/external-mcp/.bundles/"+waitingOf(m)+".tgz"])); d != "" {
		t.Error(d)
	}
}

func TestBundle_WaitingGiveWay(t *testing.T) {
	m := newMachine(t, "Linux x86_64")
	in := install.New(m, m, install.Options{})
	for i := range 5 {
		data := archiveOf(t, plainParts(part{name: "n", text: fmt.Sprint(i)})...)
		if _, err := in.Bundle(t.Context(), thread, member, "", data); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.waiting) != 1 {
		t.Errorf("%d wait", len(m.waiting))
	}
}

func TestBundle_Names(t *testing.T) {
	for given, want := range map[string]string{"My MCP Extension!": "My-MCP-Extension", "@acme/mcp-server-weather": "weather", "日本": "bundle", "../..": "bundle",
		"constructor": "bundle", strings.Repeat("x", 90): strings.Repeat("x", 48)} {
		data := archiveOf(t, part{name: "manifest.json", text: plainManifest(func(m map[string]any) { m["name"] = given })}, part{name: "server/index.js", text: "x"})
		if p, _, err := bundled(t, data); err != nil || p.Server.Name != want || p.Spec.Name != want {
			t.Errorf("%q: %q, %v", given, p.Server.Name, err)
		}
	}
	m := newMachine(t, "Linux x86_64")
	in := install.New(m, m, install.Options{})
	if p, err := in.Bundle(t.Context(), thread, member, "mine", archiveOf(t, plainParts()...)); err != nil || p.Folder != "/workspace/external-mcp/mine" {
		t.Errorf("%q, %v", p.Folder, err)
	}
	if _, err := in.Bundle(t.Context(), thread, member, "a/b", archiveOf(t, plainParts()...)); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
}

// TestBundle_MissingTools holds that what is not in the sandbox is said before anything is confirmed.
func TestBundle_MissingTools(t *testing.T) {
	m := newMachine(t, "Linux x86_64")
	m.answers["node -p process.execPath"] = "missing"
	_, err := install.New(m, m, install.Options{}).Bundle(t.Context(), thread, member, "", archiveOf(t, plainParts()...))
	if schemas.CodeOf(err) != schemas.CodeMissing || len(m.put) > 0 {
		t.Fatal(err)
	}
}
