package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"bobbin/internal/engine"
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
	if d.podman, err = engine.Podman(ctx, d.engine); err != nil {
		return err
	}
	if d.opt.Runtime == "" {
		return nil
	}
	if d.podman {
		return refusal(schemas.CodeInvalid, "Podman takes no runtime from those who use its socket", `write runtime = "`+d.opt.Runtime+`" under [engine] in its containers.conf, and leave --sandbox-runtime out`)
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

// trusted checks a file of certificate authorities: every sandbox can read it, so it must hold nothing else.
func trusted(file string) error {
	wrong := func(text, hint string, err error) error {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the certificate authorities in " + file + " " + text, Hint: hint, Err: err}
	}
	f, err := os.Open(file)
	if err != nil {
		return wrong("cannot be read", "check the path in --sandbox-ca", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAuthorities+1))
	if err != nil || len(text) > maxAuthorities {
		return wrong("cannot be read, or are more than 4 MiB", "name a PEM file", err)
	}
	n := 0
	for rest := text; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return wrong("hold something else, too: "+schemas.Clean(block.Type, true), "name a file of certificates alone: every sandbox can read it", nil)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return wrong(fmt.Sprintf("are damaged: certificate %d cannot be read", n+1), "name a PEM file", err)
		}
	}
	if n == 0 {
		return wrong("are none: there is no certificate in the file", "name a PEM file, with -----BEGIN CERTIFICATE-----", nil)
	}
	return nil
}

// share copies a file to where the engine finds it, beside the sandboxes.
func (d *Docker) share(from, name string, mode fs.FileMode) (string, error) {
	path, err := engine.Share(d.opt.Boxes, from, name, mode)
	if err != nil {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "the folder of the sandboxes cannot be used", Hint: "check who owns the data folder, and whether there is room", Err: err}
	}
	return path, nil
}

// stateOf names the present content of files; "" is none.
func stateOf(files ...string) (string, error) {
	sum := sha256.New()
	for _, file := range files {
		if file == "" {
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		n, err := io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, " %d ", n)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
