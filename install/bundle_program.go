package install

import (
	"context"
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"

	"bobbin/internal/lazy"
)

// system is what programs must be made for, in the words of Node.js' process.platform and process.arch; "" = unknown.
type system struct{ os, arch string }

func (s system) String() string {
	name := map[string]string{"linux": "Linux", "darwin": "macOS", "win32": "Windows"}[s.os]
	if name == "" {
		name = s.os
	}
	if s.arch == "" {
		return name
	}
	return name + " (" + s.arch + ")"
}

// systemOf asks the sandbox what it is; a system that cannot say so is unknown.
func systemOf(ctx context.Context, j *job) system {
	done, err := j.end(ctx, "uname", "-s", "-m")
	if err != nil || done.Code != 0 {
		return system{}
	}
	name, arch, _ := strings.Cut(strings.TrimSpace(done.Stdout), " ")
	return system{
		map[string]string{"Linux": "linux", "Darwin": "darwin"}[name],
		map[string]string{"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "i686": "ia32", "armv7l": "arm", "riscv64": "riscv64"}[arch],
	}
}

// headLen is how much of a file programsIn needs.
const headLen = 4 << 10

// programsIn tells from a file's first bytes which systems it is a program or library for; nil when it is none, such as a script.
// ELF: System V ABI, e_machine. Mach-O: mach/machine.h, also several in one. PE: Microsoft's PE format, Machine.
func programsIn(head []byte) []system {
	switch {
	case len(head) < 64:
		return nil
	case string(head[:4]) == "\x7fELF":
		var order binary.ByteOrder = binary.LittleEndian
		if head[5] == 2 {
			order = binary.BigEndian
		}
		return []system{{"linux", map[uint16]string{3: "ia32", 40: "arm", 62: "x64", 183: "arm64", 243: "riscv64"}[order.Uint16(head[18:])]}}
	case string(head[:2]) == "MZ":
		at := int64(binary.LittleEndian.Uint32(head[0x3c:]))
		if at+6 > int64(len(head)) || string(head[at:at+4]) != "PE\x00\x00" {
			return []system{{"win32", ""}}
		}
		return []system{{"win32", map[uint16]string{0x14c: "ia32", 0x8664: "x64", 0xaa64: "arm64"}[binary.LittleEndian.Uint16(head[at+4:])]}}
	}
	mach := map[uint32]string{0x01000007: "x64", 0x0100000c: "arm64"}
	switch binary.BigEndian.Uint32(head) {
	case 0xcffaedfe:
		return []system{{"darwin", mach[binary.LittleEndian.Uint32(head[4:])]}}
	case 0xcafebabe:
		count := int(binary.BigEndian.Uint32(head[4:]))
		if count > 10 || 8+20*count > len(head) { // a Java class begins so, too
			return nil
		}
		var all []system
		for i := range count {
			all = append(all, system{"darwin", mach[binary.BigEndian.Uint32(head[8+20*i:])]})
		}
		return all
	}
	return nil
}

// fits reports whether one of several programs may run on a system; what is unknown may.
func (s system) fits(made []system) bool {
	return s.os == "" || len(made) == 0 || slices.ContainsFunc(made, func(m system) bool {
		return m.os == s.os && (m.arch == s.arch || m.arch == "" || s.arch == "")
	})
}

func listSystems(all []system) string {
	var words []string
	for _, s := range all {
		if w := s.String(); !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// maxNative bounds how many libraries of a bundle are looked at.
const maxNative = 200

// natives gives what the libraries in a bundle are made for: Node's and Python's native modules.
func (a *archived) natives() []system {
	var all []system
	seen := 0
	for _, name := range a.names() {
		if ext := path.Ext(name); !slices.Contains([]string{".node", ".so", ".pyd", ".dylib"}, ext) {
			continue
		}
		if seen++; seen > maxNative {
			break
		}
		for _, s := range programsIn(a.head(name, headLen)) {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

var leastVersion = lazy.Regexp(`>=\s*v?(\d{1,6})(?:\.(\d{1,6}))?`)

// older reports whether a version is below the ">=X.Y" of a requirement; requirements of other forms are not understood.
func older(version, requirement string) bool {
	m := leastVersion().FindStringSubmatch(requirement)
	major, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	if m == nil || err != nil {
		return false
	}
	b, _ := strconv.Atoi(minor)
	wantA, _ := strconv.Atoi(m[1])
	wantB, _ := strconv.Atoi(m[2])
	return a < wantA || a == wantA && b < wantB
}
