package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"bobbin/schemas"
)

// Limits of a bundle.
const (
	maxPacked   = 64 << 20
	maxUnpacked = 256 << 20
	maxEntries  = 10_000
	maxPath     = 400 // bytes of a name in the archive
	maxDepth    = 32
	maxRatio    = 200     // unpacked to packed, of all files together
	freeRatio   = 8 << 20 // so much may be unpacked whatever the ratio
	maxManifest = 1 << 20
	manifestAt  = "manifest.json"
	packedName  = ".bobbin-bundle" // no name in a bundle begins so
)

// The signature of a bundle stands behind the archive: header, length as uint32 little endian, PKCS #7 in DER, footer (MCPB, CLI.md).
const (
	signHead = "MCPB_SIG_V1"
	signFoot = "MCPB_SIG_END"
)

// archived is a bundle's archive, looked through and found harmless to unpack.
type archived struct {
	files    map[string]*zip.File // by name
	folders  []string             // with "/" at the end, sorted
	size     int64                // unpacked
	sum      string               // SHA-256 of the whole file, in hex
	signed   bool
	manifest []byte
}

func refused(format string, a ...any) error {
	return invalid("the bundle cannot be taken: "+fmt.Sprintf(format, a...), "ask its maker for a bundle made with \"mcpb pack\"")
}

// unpackable reads an archive's directory and holds every name and size against the limits. Nothing is unpacked but the manifest.
func unpackable(data []byte) (*archived, error) {
	if len(data) > maxPacked {
		return nil, &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the bundle is larger than %d MiB", maxPacked>>20), Hint: "ask its maker for a smaller one, or install the package by its name"}
	}
	sum := sha256.Sum256(data)
	body, signed := unsigned(data)
	body, err := directory(body, len(data))
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refused("its archive is damaged")
	}
	if len(z.File) > maxEntries {
		return nil, tooMany()
	}
	a := &archived{files: map[string]*zip.File{}, sum: hex.EncodeToString(sum[:]), signed: signed}
	names := spelled{}
	for _, f := range z.File {
		if err := a.add(f, names); err != nil {
			return nil, err
		}
	}
	if a.size > freeRatio && a.size > maxRatio*int64(len(body)) {
		return nil, refused("it would unpack to more than %d times its size", maxRatio)
	}
	slices.Sort(a.folders)
	return a, a.findManifest()
}

func tooMany() error {
	return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the bundle holds more than %d files", maxEntries), Hint: "ask its maker for a smaller one, or install the package by its name"}
}

// unsigned cuts off a signature block. Whether the signature holds is not looked at.
func unsigned(data []byte) (body []byte, signed bool) {
	rest, ok := bytes.CutSuffix(data, []byte(signFoot))
	if !ok {
		return data, false
	}
	at := bytes.LastIndex(rest, []byte(signHead))
	if at < 0 || len(rest)-at < len(signHead)+4 {
		return data, false
	}
	if n := binary.LittleEndian.Uint32(rest[at+len(signHead):]); int64(n) != int64(len(rest)-at-len(signHead)-4) {
		return data, false
	}
	return rest[:at], true
}

// endLen is the length of a ZIP's end-of-central-directory record without its comment (APPNOTE 4.3.16).
const endLen = 22

// directory finds the one directory of an archive and gives the archive without a comment behind it. It is stricter than the
// format: nothing stands before the archive or between its directory and the end record, so every reader sees the same files,
// and the directory's size bounds what reading it costs. whole is the file's length with a signature, which newer tools
// declare as a comment.
func directory(body []byte, whole int) ([]byte, error) {
	for at := len(body) - endLen; at >= 0 && at >= len(body)-endLen-1<<16; at-- {
		end := body[at:]
		if string(end[:4]) != "PK\x05\x06" {
			continue
		}
		comment := int(binary.LittleEndian.Uint16(end[20:]))
		if stop := at + endLen + comment; stop != len(body) && stop != whole {
			continue
		}
		count, size, start := binary.LittleEndian.Uint16(end[10:]), binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
		switch {
		case binary.LittleEndian.Uint32(end[4:]) != 0 || binary.LittleEndian.Uint16(end[8:]) != count:
			return nil, refused("it is one part of several")
		case count == 1<<16-1 || size == 1<<32-1 || start == 1<<32-1:
			return nil, tooMany()
		case int(count) > maxEntries || size > maxEntries*(maxPath+200):
			return nil, tooMany()
		case int64(start)+int64(size) != int64(at):
			return nil, refused("its archive is damaged, or something stands around it")
		}
		body = body[:at+endLen]
		if comment > 0 {
			body = bytes.Clone(body)
			binary.LittleEndian.PutUint16(body[at+20:], 0)
		}
		return body, nil
	}
	return nil, invalid("that is no bundle: a .mcpb or .dxt file is a ZIP archive", "upload the file as it was published")
}

// spelled keeps how each name was first written, by a spelling that tells apart no more than the least able file system does.
type spelled map[string]string

func (s spelled) take(name string) (before string) {
	key := strings.ToLower(norm.NFC.String(strings.TrimSuffix(name, "/")))
	if before = s[key]; before == "" {
		s[key] = name
	}
	return before
}

func (a *archived) add(f *zip.File, names spelled) error {
	name, folder := strings.CutSuffix(f.Name, "/")
	if why := badPath(name); why != "" {
		return refused("%s %s", quoted(f.Name), why)
	}
	mode := f.Mode()
	switch {
	case f.Flags&1 != 0:
		return refused("it is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return refused("%s is packed in a way that is not known here", quoted(f.Name))
	case mode.Type()&^fs.ModeDir != 0 || mode.IsDir() && !folder:
		return refused("%s is a link or a device, not a file", quoted(f.Name))
	case folder && f.UncompressedSize64 != 0:
		return refused("%s is a folder with content of its own", quoted(f.Name))
	case f.UncompressedSize64 > maxUnpacked || a.size+int64(f.UncompressedSize64) > maxUnpacked:
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the bundle would unpack to more than %d MiB", maxUnpacked>>20), Hint: "ask its maker for a smaller one, or install the package by its name"}
	}
	a.size += int64(f.UncompressedSize64)
	for at := 0; ; { // every folder above it, as one spelling and never a file
		i := strings.IndexByte(name[at:], '/')
		if i < 0 {
			break
		}
		at += i + 1
		if before := names.take(name[:at]); before != "" && before != name[:at] {
			return refused("%s and %s would be one and the same", quoted(before), quoted(name[:at]))
		}
	}
	if before := names.take(f.Name); before != "" && !(folder && before == f.Name) {
		return refused("%s and %s would be one and the same", quoted(before), quoted(f.Name))
	}
	if folder {
		if !slices.Contains(a.folders, f.Name) {
			a.folders = append(a.folders, f.Name)
		}
		return nil
	}
	a.files[name] = f
	return nil
}

// badPath says what is wrong with a name in an archive, "" if nothing.
func badPath(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case name == "":
		return "is no name"
	case !utf8.ValidString(name) || schemas.Clean(name, true) != name:
		return "holds characters that cannot be shown"
	case len(name) > maxPath || len(parts) > maxDepth:
		return "is too long or too deep"
	case strings.Contains(name, `\`):
		return "holds a backslash"
	case strings.HasPrefix(name, "/"):
		return "leads out of the bundle"
	case strings.Contains(name, ":"):
		return "holds a colon, as drives do"
	case strings.HasPrefix(strings.ToLower(parts[0]), packedName), strings.EqualFold(name, recordName):
		return "is a name of bobbin's own"
	}
	for _, p := range parts {
		switch {
		case p == "..":
			return "leads out of the bundle"
		case p == "" || p == ".":
			return "is not written plainly"
		case len(p) > 255:
			return "is too long or too deep"
		case strings.HasSuffix(p, ".") || strings.HasSuffix(p, " "):
			return "ends in a dot or a blank"
		}
	}
	return ""
}

// findManifest reads the manifest at the root; one in a folder belongs to something else.
func (a *archived) findManifest() error {
	f := a.files[manifestAt]
	if f == nil {
		for name := range a.files {
			if folder, rest, _ := strings.Cut(name, "/"); rest == manifestAt {
				return invalid("the bundle has no manifest.json at its root; there is one in "+quoted(folder), "pack what is in the folder, not the folder itself")
			}
		}
		return invalid("the bundle has no manifest.json", "a .mcpb or .dxt file has one at its root; is it the right file?")
	}
	if f.UncompressedSize64 > maxManifest {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: "the bundle's manifest.json is larger than 1 MiB"}
	}
	data, err := content(f, maxManifest)
	a.manifest = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	return err
}

// content unpacks one file; more than it was announced to hold is an error.
func content(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, refused("%s is damaged", quoted(f.Name))
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, min(int64(f.UncompressedSize64), limit)+1))
	if err != nil || uint64(len(data)) != f.UncompressedSize64 {
		return nil, refused("%s is damaged", quoted(f.Name))
	}
	return data, nil
}

// head gives the first bytes of a file; fewer if there are no more, or it is damaged.
func (a *archived) head(name string, n int64) []byte {
	f := a.files[name]
	if f == nil {
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	data, _ := io.ReadAll(io.LimitReader(r, n)) // a damaged file is found when it is packed
	return data
}

// packed writes the files anew, as a gzip-compressed tar of plain files and folders that any tar can unpack: what was looked
// at here is then all that there is. Programs keep their right to run; those in run get it.
func (a *archived) packed(run ...string) ([]byte, error) {
	var out bytes.Buffer
	g, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(g)
	for _, name := range a.folders {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
	}
	for _, name := range a.names() {
		f := a.files[name]
		mode := int64(0o644)
		if f.Mode()&0o111 != 0 || slices.Contains(run, name) {
			mode = 0o755
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(f.UncompressedSize64), Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		r, err := f.Open()
		if err != nil {
			return nil, refused("%s is damaged", quoted(name))
		}
		n, err := io.Copy(t, r)
		if err = cmp.Or(err, r.Close()); err != nil || uint64(n) != f.UncompressedSize64 {
			return nil, refused("%s is damaged", quoted(name))
		}
	}
	if err := cmp.Or(t.Close(), g.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// names lists the files in order.
func (a *archived) names() []string {
	names := make([]string, 0, len(a.files))
	for n := range a.files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// has reports whether a clean slash-separated path is a file of the bundle.
func (a *archived) has(name string) bool { return a.files[path.Clean(name)] != nil }
