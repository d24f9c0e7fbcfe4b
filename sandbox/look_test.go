//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/sandbox"
	"bobbin/schemas"
)

// certificate gives the PEM of an authority and its key.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func TestNewDocker_Authorities(t *testing.T) {
	cert, key := certificate(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(mode os.FileMode, parts ...[]byte) {
		t.Helper()
		var all []byte
		for _, p := range parts {
			all = append(all, p...)
		}
		if err := os.WriteFile(file, all, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(0o600, cert, cert) // sandboxes read a copy
	e, d, opt := openFake(t, func(o *sandbox.DockerOptions) { o.CA = file })
	if _, err := d.Exec(t.Context(), schemas.Exec{Member: "alice", Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(opt.Boxes.Path(), "shared", "ca.pem")
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	for _, want := range []string{`"SSL_CERT_FILE=/etc/bobbin-ca.pem"`, `"NODE_EXTRA_CA_CERTS=/etc/`, `"REQUESTS_CA_BUNDLE=/etc/`, `"PIP_CERT=/etc/`, `"GIT_SSL_CAINFO=/etc/`, `"CURL_CA_BUNDLE=/etc/`,
		`{"Type":"bind","Source":"` + copied + `","Target":"/etc/bobbin-ca.pem","ReadOnly":true}`} {
		if !strings.Contains(e.created[0], want) {
			t.Errorf("the container has no %s:\n%s", want, e.created[0])
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	other, _ := certificate(t)
	write(0o644, other)
	again, err := sandbox.NewDocker(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if text, err := os.ReadFile(copied); err != nil || !bytes.Equal(text, other) {
		t.Errorf("the copy is an old one: %v", err)
	}
	for name, c := range map[string]struct {
		mode  os.FileMode
		parts [][]byte
		words string
	}{
		"key":     {0o644, [][]byte{cert, key}, "something else, too: EC PRIVATE KEY"},
		"empty":   {0o644, nil, "are none"},
		"damaged": {0o644, [][]byte{cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})}, "certificate 2"},
		"large":   {0o644, [][]byte{make([]byte, 4<<20+1)}, "4 MiB"},
	} {
		write(c.mode, c.parts...)
		if _, err := sandbox.NewDocker(t.Context(), opt); schemas.CodeOf(err) != schemas.CodeInvalid || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		opt.CA = bad
		if _, err := sandbox.NewDocker(t.Context(), opt); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestNewDocker_Runtime(t *testing.T) {
	e, _, opt := openFake(t, func(o *sandbox.DockerOptions) { o.Runtime = "crun" })
	for name, words := range map[string]string{"runsc": "gVisor", "nope": "daemon.json"} {
		opt.Runtime = name
		_, err := sandbox.NewDocker(t.Context(), opt)
		said, ok := errors.AsType[*schemas.Error](err)
		if !ok || said.Code != schemas.CodeMissing || !strings.Contains(said.Text, "it has crun, runc") || !strings.Contains(said.Hint, words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.created) > 0 {
		t.Error(e.created)
	}
}

// TestNewDocker_Refusals: whatever is missing is said, with the next step.
func TestNewDocker_Refusals(t *testing.T) {
	_, d, opt := openFake(t, nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(t.TempDir(), "bobbin")
	program, err := os.ReadFile(opt.Binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(closed, program, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*sandbox.DockerOptions){
		"no container engine answers": func(o *sandbox.DockerOptions) { o.Engine = "unix://" + filepath.Join(t.TempDir(), "none.sock") },
		"on another machine":          func(o *sandbox.DockerOptions) { o.Engine = "tcp://192.0.2.1:2375" },
		"has no image":                func(o *sandbox.DockerOptions) { o.Image = "other" },
		"may not run":                 func(o *sandbox.DockerOptions) { o.Binary = closed },
		"cannot be read":              func(o *sandbox.DockerOptions) { o.Binary = filepath.Join(t.TempDir(), "absent") },
		"was built with cgo":          func(o *sandbox.DockerOptions) { o.Binary = "/bin/sh" },
		"no folder for sandboxes":     func(o *sandbox.DockerOptions) { o.Boxes = nil },
	} {
		changed := opt
		change(&changed)
		if _, err := sandbox.NewDocker(t.Context(), changed); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sandbox.NewDocker(ended, opt); err == nil {
		t.Error("it opens when it should end")
	}
	boxes, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := boxes.Write("instance", []byte("short")); err != nil {
		t.Fatal(err)
	}
	opt.Boxes = boxes
	if _, err := sandbox.NewDocker(t.Context(), opt); err == nil {
		t.Error("a damaged id is taken")
	}
}
