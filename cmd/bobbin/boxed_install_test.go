//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf is a site of wheels and repositories, as far away as one can be on one machine: https, with an authority of its own.
type shelf struct {
	t    *testing.T
	host string // with port
	ca   string // file
	dir  string // of the repositories

	mu     sync.Mutex
	wheels map[string][]byte
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		missing(t, "git")
	}
	ip := ""
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			ip = n.IP.String()
		}
	}
	if ip == "" {
		t.Skip("this machine has no address but its loopback")
	}
	s := &shelf{t: t, dir: t.TempDir(), wheels: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/{name}/", s.index)
	mux.HandleFunc("/files/{name}", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(s.wheel(r.PathValue("name"))) })
	mux.Handle("/git/", &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + s.dir}})
	web := httptest.NewUnstartedServer(mux)
	cert, pool := certificate(t, ip)
	web.TLS = cert
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skip(err)
	}
	_ = web.Listener.Close()
	web.Listener = l
	web.StartTLS()
	t.Cleanup(web.Close)
	s.host, s.ca = l.Addr().String(), filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(s.ca, pool, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shelf) wheel(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wheels[name]
}

// index is that of PEP 503.
func (s *shelf) index(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	for name, data := range s.wheels {
		if strings.HasPrefix(name, strings.ReplaceAll(r.PathValue("name"), "-", "_")+"-") {
			_, _ = fmt.Fprintf(w, "<a href=\"/files/%s#sha256=%x\">%s</a>\n", name, sha256.Sum256(data), name)
		}
	}
}

// publish puts a version of a server in Python on the shelf (PEP 427).
func (s *shelf) publish(name, version string) {
	s.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	record := ""
	for file, text := range map[string]string{
		name + ".py": pythonServer(version), info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\nLicense: MIT\n",
		info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info + "entry_points.txt": "[console_scripts]\n" + name + " = " + name + ":main\n",
	} {
		f, _ := z.Create(file)
		_, _ = f.Write([]byte(text))
		record += file + ",,\n"
	}
	f, _ := z.Create(info + "RECORD")
	_, _ = f.Write([]byte(record + info + "RECORD,,\n"))
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wheels[name+"-"+version+"-py3-none-any.whl"] = b.Bytes()
}

// commit makes a repository, or the next commit of one, and gives its address.
func (s *shelf) commit(name string, files map[string]string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name+".git")
	for file, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			s.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return "https://" + s.host + "/git/" + name + ".git"
}

// pythonServer is a module whose main is a server that says which version it is.
func pythonServer(version string) string {
	return `import sys, json
def main():
    for line in sys.stdin:
        m = json.loads(line)
        if "id" not in m: continue
        k = m["method"]
        r = {}
        if k == "initialize": r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "py", "version": "` + version + `"}}
        if k == "tools/list": r = {"tools": [{"name": "version", "description": "Says it.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
        if k == "tools/call": r = {"content": [{"type": "text", "text": "it is ` + version + `"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`
}

// nodeServer is the same for Node.
const nodeServer = `require("readline").createInterface({input:process.stdin}).on("line",l=>{const m=JSON.parse(l);if(!("id" in m))return;const k=m.method,` +
	`r=k=="initialize"?{protocolVersion:"2025-06-18",capabilities:{tools:{}},serverInfo:{name:"n",version:"1"}}:k=="tools/list"?{tools:[{name:"version",inputSchema:{type:"object"},annotations:{readOnlyHint:true}}]}:` +
	`{content:[{type:"text",text:"it is node"}]};console.log(JSON.stringify({jsonrpc:"2.0",id:m.id,result:r}))})`

const lockOf = `{"name":"acme-node","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"acme-node","version":"1.0.0","bin":{"acme-node":"dist/index.js"}}}}`

// backend builds a wheel with nothing but Python's own library (PEP 517).
const backend = `import zipfile
def build_wheel(d, config_settings=None, metadata_directory=None):
    n, i = "acme_tool-1.0-py3-none-any.whl", "acme_tool-1.0.dist-info/"
    with zipfile.ZipFile(d + "/" + n, "w") as z:
        for f, t in {"acme_tool.py": open("acme_tool.py").read(), i + "METADATA": "Metadata-Version: 2.1\nName: acme-tool\nVersion: 1.0\n", i + "WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n", i + "entry_points.txt": "[console_scripts]\nacme-tool = acme_tool:main\n", i + "RECORD": ""}.items(): z.writestr(f, t)
    return n
`

// TestSandbox_PipAndGit: servers from an index and from repositories that only this network's own authority vouches for.
func TestSandbox_PipAndGit(t *testing.T) {
	s := newShelf(t)
	b := newBoxed(t, "BOBBIN_SANDBOX_CA="+s.ca, "BOBBIN_ALLOW_INTERNAL=https://"+s.host)
	s.publish("acme_clock", "1.0.0")
	node := s.commit("acme-node", map[string]string{"package.json": `{"name":"acme-node","version":"1.0.0","bin":{"acme-node":"dist/index.js"},"scripts":{"prepare":"node build.js"}}`,
		"package-lock.json": lockOf, "build.js": `const fs=require("fs");fs.mkdirSync("dist",{recursive:true});fs.copyFileSync("index.js","dist/index.js")`, "index.js": nodeServer})
	python := s.commit("acme-tool", map[string]string{"pyproject.toml": "[project]\nname = \"acme-tool\"\nversion = \"1.0\"\n[project.scripts]\nacme-tool = \"acme_tool:main\"\n" +
		"[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n", "backend.py": backend, "acme_tool.py": pythonServer("a tool")})
	broken := s.commit("acme-broken", map[string]string{"package.json": `{"name":"acme-broken","version":"1.0.0","bin":{"acme-broken":"dist/index.js"},"scripts":{"prepare":"node build.js"}}`,
		"package-lock.json": strings.ReplaceAll(lockOf, "acme-node", "acme-broken"), "build.js": `console.error("no compiler for this moon phase");process.exit(3)`})

	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	shows(t, "pip.conf", p.do(`/mcp sandbox exec mkdir -p .config/pip && printf '[global]\nindex-url=https://`+s.host+`/simple/\n' >.config/pip/pip.conf`), "exit 0")

	p.say("/mcp install pip acme_clock name:clock")
	card := p.within(time.Minute, `1 added: clock.*1\) Confirm`)
	shows(t, "pip's card", card, `version +1\.0\.0`, `integrity +sha256:[0-9a-f]{64}`, "pip takes it from "+s.host)
	p.say("1")
	p.within(time.Minute, `clock is ready`)
	shows(t, "a call", p.do("/mcp call clock.version {}"), `it is 1\.0\.0`)
	s.publish("acme_clock", "1.1.0")
	p.say("/mcp install upgrade clock")
	shows(t, "the upgrade's card", p.within(time.Minute, `version +1\.0\.0.*1\) Confirm`), `1\.0\.0 → 1\.1\.0`)
	p.say("1")
	p.within(time.Minute, `clock is upgraded from 1\.0\.0 to 1\.1\.0.*clock is ready`)
	shows(t, "a call after the upgrade", p.do("/mcp call clock.version {}"), `it is 1\.1\.0`)

	for name, address := range map[string]string{"node": node, "tool": python} {
		p.say("/mcp install git " + address + " name:" + name)
		card := p.within(time.Minute, `1 added: `+name+`.*1\) Confirm with scripts`)
		shows(t, name+"'s card", card, `integrity +[0-9a-f]{40}`, "cannot be installed without its own scripts")
		p.say("1")
		p.within(time.Minute, name+` is ready`)
		shows(t, "a call", p.do("/mcp call "+name+".version {}"), `it is (node|a tool)`)
	}

	p.say("/mcp install git " + broken + " name:broken")
	p.within(time.Minute, `1\) Confirm with scripts`)
	p.say("1")
	shows(t, "a build that fails", p.within(time.Minute, `npm ended with exit code 3.*nothing is stored.*A complete log[^\n]*`), "no compiler for this moon phase")
	if left := p.do("/mcp list") + p.do("/mcp sandbox exec ls -A external-mcp"); strings.Contains(left, "broken") {
		t.Errorf("left of what failed: %s", left)
	}
	p.end()
}

// certificate is one for an address, and the PEM of what vouches for it.
func certificate(t *testing.T, ip string) (*tls.Config, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of this network"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: ip}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.ParseIP(ip)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}
