package operator

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// FileName is that of the operator's servers in the data folder.
const FileName = "mcps.yaml"

const (
	maxFile    = 1 << 20
	maxServers = 200

	defaultPrefix = "bobbin"
	defaultPort   = 8080
	defaultHost   = "0.0.0.0"
	defaultOrigin = "*"
)

// The types of servers.
const (
	Proxied = "proxy"  // a container with a stdio server, behind a proxy
	Remote  = "remote" // reached by URL
)

// Server is one entry of mcps.yaml.
type Server struct {
	Name              string            `yaml:"name" json:"name"`
	Type              string            `yaml:"type" json:"type"`
	BaseImage         string            `yaml:"base_image,omitempty" json:"base_image,omitempty"`
	Command           string            `yaml:"command,omitempty" json:"command,omitempty"` // after the image's entrypoint, as in docker run
	ProxyImage        string            `yaml:"proxy_image,omitempty" json:"proxy_image,omitempty"`
	ProxyOptions      *ProxyOptions     `yaml:"proxy_options,omitempty" json:"proxy_options,omitempty"` // never nil once it was read, of a proxied one
	Env               map[string]string `yaml:"env,omitempty" json:"-"`                                 // values may hold ${input:ID} and ${env:NAME}
	URL               string            `yaml:"url,omitempty" json:"url,omitempty"`
	Headers           map[string]string `yaml:"headers,omitempty" json:"-"` // values as in Env
	Allow             []string          `yaml:"allow,omitempty" json:"allow,omitempty"`
	AllowDockerSocket bool              `yaml:"allow_docker_socket,omitempty" json:"allow_docker_socket,omitempty"`
	Writable          bool              `yaml:"writable,omitempty" json:"writable,omitempty"` // its root file system, which is read-only otherwise
	Replicas          int               `yaml:"replicas,omitempty" json:"replicas,omitempty"` // 0, which is one, or more

	Wrong string `yaml:"-" json:"wrong,omitempty"` // why it cannot be used, in words
	nth   int    // which replica is meant, from 0
}

// ProxyOptions say how a server is served inside its network.
type ProxyOptions struct {
	Port   int    `yaml:"sse_port" json:"sse_port"`
	Host   string `yaml:"sse_host" json:"sse_host"`
	Origin string `yaml:"allow_origin" json:"allow_origin"`
}

// File is a reading of mcps.yaml.
type File struct {
	Prefix   string // of the names of containers, networks and images
	Servers  []Server
	Problems schemas.Problems // unknown keys and entries that cannot be used
}

// Find gives the entry with that name.
func (f File) Find(name string) (Server, bool) {
	for _, s := range f.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

var (
	prefixForm = lazy.Regexp(`\A[a-z0-9][a-z0-9_-]{0,23}\z`)
	envForm    = lazy.Regexp(`\A[A-Za-z_][A-Za-z0-9_]{0,127}\z`)
	headerForm = lazy.Regexp("\\A[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\\z") // RFC 9110, token
	imageForm  = lazy.Regexp(`\A[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,255}\z`)
)

// decode reads the text of mcps.yaml. An error means that nothing of it can be used; Problems names single mistakes.
func decode(text []byte) (File, error) {
	f := File{Prefix: defaultPrefix}
	tree, err := parse(text)
	if err != nil {
		return f, schemas.Problems{syntax(text, err)}
	}
	d := decoder{file: &f}
	for i, doc := range tree.Docs {
		if i > 0 {
			d.say(doc.Body, "", "only the first YAML document counts", "take the line with --- out")
			break
		}
		if err := d.top(doc.Body); err != nil {
			return f, err
		}
	}
	return f, nil
}

// parse reads YAML as Windows' editors write it, too: the library takes a byte order mark for a part of the first key, and counts
// lines wrongly that end with CRLF.
func parse(text []byte) (*ast.File, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return parser.ParseBytes(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), 0)
}

// syntax gives a mistake of YAML its place. The library's message may quote the text around it, which may hold a secret.
func syntax(text []byte, err error) schemas.Problem {
	p := schemas.Problem{File: FileName, Text: "is not valid YAML", Hint: "look at the indentation and the quotes there"}
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		p.Line, p.Col = e.GetToken().Position.Line, e.GetToken().Position.Column
		if m := e.GetMessage(); strings.Contains(m, "already defined") {
			p.Text, p.Hint = "a key stands there twice", "take one of them out"
		}
	}
	if lines := split(text); p.Line > 0 && p.Line <= len(lines) {
		line := lines[p.Line-1]
		if strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t") {
			p.Text, p.Hint = "is indented with a tab there", "YAML takes spaces alone"
		}
	}
	return p
}

type decoder struct{ file *File }

func (d *decoder) say(at ast.Node, server, text, hint string) {
	p := schemas.Problem{File: FileName, Server: server, Text: text, Hint: hint}
	if m, ok := at.(ast.MapNode); ok { // its own token is the colon
		if it := m.MapRange(); it.Next() {
			at = it.Key()
		}
	}
	if at != nil && at.GetToken() != nil {
		p.Line, p.Col = at.GetToken().Position.Line, at.GetToken().Position.Column
	}
	d.file.Problems = append(d.file.Problems, p)
}

func (d *decoder) top(body ast.Node) error {
	if body == nil || body.Type() == ast.NullType || body.Type() == ast.CommentType || body.Type() == ast.CommentGroupType {
		return nil
	}
	m, ok := body.(ast.MapNode)
	if !ok {
		return schemas.Problems{{File: FileName, Line: 1, Col: 1, Text: "must be a mapping with the list mcps:", Hint: "the first line is mcps:"}}
	}
	var other ast.Node
	listed := false
	for it := m.MapRange(); it.Next(); {
		switch key := it.Key().String(); key {
		case "mcps":
			listed = true
			if err := d.list(it.Value()); err != nil {
				return err
			}
		case "prefix":
			v, ok := text(it.Value())
			if !ok || !prefixForm().MatchString(v) {
				d.say(it.Value(), "", "prefix must be a short word of small letters, digits, - and _", "")
				continue
			}
			d.file.Prefix = v
		default:
			other = it.Key()
		}
	}
	if !listed && other != nil { // beside the list it is a setting of the program that the file comes from
		d.unknown(other, other.String(), []string{"mcps", "prefix"})
	}
	return nil
}

func (d *decoder) list(n ast.Node) error {
	if n.Type() == ast.NullType {
		return nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return schemas.Problems{{File: FileName, Line: n.GetToken().Position.Line, Col: n.GetToken().Position.Column, Text: "mcps must be a list", Hint: "begin each server with - name: NAME"}}
	}
	if len(seq.Values) > maxServers {
		return schemas.Problems{{File: FileName, Text: fmt.Sprintf("mcps has more than %d servers", maxServers)}}
	}
	for _, v := range seq.Values {
		s, ok := d.server(v)
		if !ok {
			continue
		}
		if _, twice := d.file.Find(s.Name); twice {
			d.say(v, s.Name, "the name stands there twice; the first one counts", "rename one of them")
			continue
		}
		if other := d.file.clash(s); other != "" && s.Wrong == "" {
			s.Wrong = clashing(s.Name, other)
			d.say(v, s.Name, s.Wrong, "rename one of them")
		}
		d.file.Servers = append(d.file.Servers, s)
	}
	return nil
}

// server reads an entry; ok is false when it has no usable name.
func (d *decoder) server(n ast.Node) (s Server, ok bool) {
	m, isMap := n.(ast.MapNode)
	link := linked(n)
	switch {
	case isMap:
	case link != nil:
		d.say(link, "", noLinks, "write it out")
		return s, false
	default:
		d.say(n, "", "an entry of mcps must be a mapping", "begin it with - name: NAME")
		return s, false
	}
	first := len(d.file.Problems)
	s.Type = Proxied
	for it := m.MapRange(); it.Next(); {
		d.field(&s, it.Key().String(), it.Key(), it.Value())
	}
	if link != nil { // what it led to follows from this
		d.file.Problems = d.file.Problems[:first]
		s.Wrong = noLinks
		d.say(link, "", s.Wrong, "write it out")
	}
	for i := first; i < len(d.file.Problems); i++ {
		d.file.Problems[i].Server = s.Name
	}
	if !schemas.ValidName(s.Name) {
		d.say(n, "", "a server needs a name of letters, digits, . _ -, at most 48", "name: github")
		return s, false
	}
	if s.Type == Proxied {
		s.fill()
	}
	if p := s.check(); p != nil && s.Wrong == "" {
		s.Wrong = p.Text
		d.say(n, s.Name, p.Text, p.Hint)
	}
	return s, true
}

const noLinks = "anchors, aliases and merged keys (&, *, <<) are not followed"

// linked gives the first of them in an entry: one change of it could be a change of many.
func linked(n ast.Node) ast.Node {
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.MergeKeyType} {
		if found := ast.Filter(kind, n); len(found) > 0 {
			return found[0]
		}
	}
	return nil
}

// fill sets the defaults of a proxied server.
func (s *Server) fill() {
	if s.Replicas == 1 {
		s.Replicas = 0
	}
	o := ProxyOptions{Port: defaultPort, Host: defaultHost, Origin: defaultOrigin}
	if s.ProxyOptions != nil {
		o = *s.ProxyOptions
		if o.Port == 0 {
			o.Port = defaultPort
		}
		if o.Host == "" {
			o.Host = defaultHost
		}
		if o.Origin == "" {
			o.Origin = defaultOrigin
		}
	}
	s.ProxyOptions = &o
}

func (d *decoder) field(s *Server, key string, at, n ast.Node) {
	words := map[string]*string{"name": &s.Name, "type": &s.Type, "base_image": &s.BaseImage, "command": &s.Command, "proxy_image": &s.ProxyImage, "url": &s.URL}
	flags := map[string]*bool{"allow_docker_socket": &s.AllowDockerSocket, "writable": &s.Writable}
	tables := map[string]*map[string]string{"env": &s.Env, "headers": &s.Headers}
	wrong := func(what string) {
		hint := ""
		if _, list := n.(*ast.SequenceNode); list && tables[key] != nil {
			hint = "write NAME: value on each line, without the dash"
		}
		s.Wrong = key + " must be " + what
		d.say(n, "", s.Wrong, hint)
	}
	switch {
	case words[key] != nil:
		v, ok := text(n)
		if !ok {
			wrong("text")
			return
		}
		*words[key] = v
	case flags[key] != nil:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			wrong("true or false")
			return
		}
		*flags[key] = b.Value
	case tables[key] != nil:
		v, ok := table(n)
		if !ok {
			wrong("a mapping of texts")
			return
		}
		*tables[key] = v
	case key == "allow":
		v, ok := texts(n)
		if !ok {
			wrong("a list of texts")
			return
		}
		s.Allow = v
	case key == "replicas":
		v, _ := text(n)
		if s.Replicas, _ = strconv.Atoi(v); s.Replicas < 1 || s.Replicas > MaxReplicas {
			s.Replicas = 0
			wrong(fmt.Sprintf("a number from 1 to %d", MaxReplicas))
		}
	case key == "proxy_options":
		d.options(s, n)
	default:
		d.unknown(at, key, []string{"name", "type", "base_image", "command", "proxy_image", "proxy_options", "env", "url", "headers", "allow", "allow_docker_socket", "writable", "replicas"})
	}
}

func (d *decoder) options(s *Server, n ast.Node) {
	m, ok := n.(ast.MapNode)
	if !ok {
		s.Wrong = "proxy_options must be a mapping"
		d.say(n, "", s.Wrong, "")
		return
	}
	var o ProxyOptions
	for it := m.MapRange(); it.Next(); {
		v, ok := text(it.Value())
		key := it.Key().String()
		switch {
		case !slices.Contains([]string{"sse_port", "sse_host", "allow_origin"}, key):
			d.unknown(it.Key(), "proxy_options."+key, []string{"proxy_options.sse_port", "proxy_options.sse_host", "proxy_options.allow_origin"})
		case !ok:
			s.Wrong = "proxy_options." + key + " must be text or a number"
			d.say(it.Value(), "", s.Wrong, "")
		case key == "sse_host":
			o.Host = v
		case key == "allow_origin":
			o.Origin = v
		default:
			port, err := strconv.Atoi(v)
			if o.Port = port; err != nil || port == 0 {
				o.Port = -1 // for check
			}
		}
	}
	s.ProxyOptions = &o
}

func (d *decoder) unknown(at ast.Node, key string, known []string) {
	hint := "it has no effect"
	if near := schemas.Nearest(key, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.say(at, "", fmt.Sprintf("unknown key %q", schemas.Clean(key, true)), hint)
}

// text gives a scalar as it was written.
func text(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		return "", true
	case *ast.TagNode:
		return text(v.Value)
	}
	return "", false
}

func texts(n ast.Node) ([]string, bool) {
	if n.Type() == ast.NullType {
		return nil, true
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	all := []string{}
	for _, v := range seq.Values {
		t, ok := text(v)
		if !ok {
			return nil, false
		}
		all = append(all, t)
	}
	return all, true
}

func table(n ast.Node) (map[string]string, bool) {
	if n.Type() == ast.NullType {
		return nil, true
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, false
	}
	all := map[string]string{}
	for it := m.MapRange(); it.Next(); {
		k, keyed := text(it.Key())
		v, ok := text(it.Value())
		if !ok || !keyed {
			return nil, false
		}
		all[k] = v
	}
	return all, true
}

// check judges an entry; nil: it can be used.
func (s Server) check() *schemas.Problem {
	wrong := func(hint, format string, args ...any) *schemas.Problem {
		return &schemas.Problem{File: FileName, Server: s.Name, Text: fmt.Sprintf(format, args...), Hint: hint}
	}
	if !schemas.ValidName(s.Name) {
		return wrong("", "a name has letters, digits, . _ -, at most 48, and begins with a letter or digit")
	}
	for _, a := range s.Allow {
		if !goodAllow(a) {
			return wrong("thread:ID, member:ID, role:manager, session:NAME, or *", "allow has %q, which names nobody", schemas.Clean(a, true))
		}
	}
	switch s.Type {
	case Remote:
		return s.checkRemote(wrong)
	case Proxied:
	default:
		return wrong("", "type must be proxy or remote, not %q", schemas.Clean(s.Type, true))
	}
	o := s.ProxyOptions
	switch {
	case !imageForm().MatchString(s.BaseImage):
		return wrong("base_image: mcp/github", "base_image must name an image")
	case s.ProxyImage != "" && !imageForm().MatchString(s.ProxyImage):
		return wrong("leave it out for bobbin's own proxy", "proxy_image must name an image")
	case o.Port < 1 || o.Port > 65535:
		return wrong("", "sse_port must be a number from 1 to 65535")
	case strings.ContainsAny(o.Host, " \t\n/\"'$`"):
		return wrong(`"0.0.0.0" is every address of the container`, "sse_host must be an address")
	case s.Replicas < 0 || s.Replicas > MaxReplicas:
		return wrong("", "replicas must be a number from 1 to %d", MaxReplicas)
	case s.Replicas > 1 && s.ProxyImage != "":
		return wrong("leave proxy_image out", "replicas need bobbin's own proxy")
	case o.Origin != "*" && !isOrigin(o.Origin):
		return wrong("", `allow_origin must be "*" or an origin such as https://app.example.com`)
	}
	if _, err := words(s.Command); err != nil {
		return wrong("", "command has a quote that does not end")
	}
	for k := range s.Env {
		if !envForm().MatchString(k) {
			return wrong("", "env has the name %q, which no variable can have", schemas.Clean(k, true))
		}
	}
	return nil
}

func (s Server) checkRemote(wrong func(hint, format string, args ...any) *schemas.Problem) *schemas.Problem {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
		return wrong("url: https://mcp.example.com/mcp", "url must be an http or https address, without a user or fragment")
	}
	for k, v := range s.Headers {
		if !headerForm().MatchString(k) || strings.ContainsAny(v, "\r\n\x00") {
			return wrong("", "headers has %q, which cannot be sent", schemas.Clean(k, true))
		}
	}
	return nil
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.Path == "" && u.RawQuery == "" && u.User == nil && u.Fragment == ""
}
