package sandbox

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const maxAuthorities = 4 << 20

// lookInfo asks where the engine keeps its files, and whether it knows the runtime that was named.
func (d *Docker) lookInfo(ctx context.Context) error {
	info, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return &schemas.Error{Code: schemas.CodeMissing, Text: "the container engine does not say what it can do", Hint: "see its log", Err: err}
	}
	d.root = info.Info.DockerRootDir
	if d.opt.Runtime == "" {
		return nil
	}
	if _, ok := info.Info.Runtimes[d.opt.Runtime]; ok {
		return nil
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(info.Info.Runtimes)), func(name string) bool { return strings.HasPrefix(name, "io.containerd.") })
	hint := "add it to the engine's daemon.json and restart the engine, or leave --sandbox-runtime out"
	if d.opt.Runtime == "runsc" {
		hint = "install gVisor, then: runsc install -- --host-uds=all, and restart the engine; or leave --sandbox-runtime out"
	}
	return refusal(schemas.CodeMissing, fmt.Sprintf("the container engine has no runtime %.40q; it has %s", d.opt.Runtime, strings.Join(known, ", ")), hint)
}

// trusted checks a file of certificate authorities, and names its present content. The sandboxes' user must be able to read it, and
// may: so it must hold nothing else.
func trusted(file string) (path, sum string, err error) {
	wrong := func(text, hint string, err error) error {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the certificate authorities in " + file + " " + text, Hint: hint, Err: err}
	}
	if path, err = filepath.Abs(file); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", "", wrong("cannot be read", "check the path in --sandbox-ca", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", wrong("cannot be read", "check the path in --sandbox-ca", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", "", wrong("are not in a file", "name a PEM file", err)
	}
	if info.Mode().Perm()&0o004 == 0 {
		return "", "", wrong("can only be read by their owner, and sandboxes run as another user", "chmod o+r "+file, nil)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAuthorities+1))
	if err != nil || len(text) > maxAuthorities {
		return "", "", wrong("cannot be read, or are more than 4 MiB", "name a PEM file", err)
	}
	n := 0
	for rest := text; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "", "", wrong("hold something else, too: "+schemas.Clean(block.Type, true), "name a file of certificates alone: every sandbox can read it", nil)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", "", wrong(fmt.Sprintf("are damaged: certificate %d cannot be read", n+1), "name a PEM file", err)
		}
	}
	if n == 0 {
		return "", "", wrong("are none: there is no certificate in the file", "name a PEM file, with -----BEGIN CERTIFICATE-----", nil)
	}
	return path, hash(string(text)), nil
}
