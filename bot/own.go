package bot

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// The names of the assistant's own tools.
const (
	ownServer     = "bobbin" // what their full names begin with
	ownConnect    = "connect_external_mcp"
	ownList       = "list_external_mcp"
	ownDisconnect = "disconnect_external_mcp"
	ownInstall    = "auto_install_and_connect_mcp"
	ownShell      = "sandbox_shell_exec"
)

// maxMistakes bounds what is said about one call's arguments.
const maxMistakes = 20

// ownJSON is the definitions as MCP tools (specification, Tools).
//
//go:embed own.json
var ownJSON []byte

// ownTool is one of the assistant's own tools, with what checks its arguments.
type ownTool struct {
	schemas.Tool
	check *jsonschema.Schema
}

// ownTools reads the definitions. It panics when they are broken, since they are part of the program.
func ownTools() []ownTool {
	var raws []json.RawMessage
	must(json.Unmarshal(ownJSON, &raws))
	var all []ownTool
	for _, raw := range raws {
		var def struct {
			Name, Title, Description string
			InputSchema              json.RawMessage
			Annotations              struct{ ReadOnlyHint bool }
		}
		must(json.Unmarshal(raw, &def))
		var whole, input bytes.Buffer
		must(json.Compact(&whole, raw))
		must(json.Compact(&input, def.InputSchema))
		sum := sha256.Sum256(whole.Bytes())
		t := ownTool{Tool: schemas.Tool{Server: ownServer, Name: def.Name, Model: def.Name, Title: def.Title, Description: def.Description,
			Input: input.Bytes(), Raw: whole.Bytes(), Pin: hex.EncodeToString(sum[:]), ReadOnly: def.Annotations.ReadOnlyHint,
			Writes: !def.Annotations.ReadOnlyHint, Tokens: whole.Len() / 4}}
		c := jsonschema.NewCompiler()
		c.Draft = jsonschema.Draft2020
		must(c.AddResource("tool:///"+def.Name, bytes.NewReader(t.Input)))
		var err error
		t.check, err = c.Compile("tool:///" + def.Name)
		must(err)
		all = append(all, t)
	}
	return all
}

func must(err error) {
	if err != nil {
		panic("bot: own.json: " + err.Error())
	}
}

// OwnTools are the tools that bobbin itself offers to the assistant of a member: to connect, install, list and disconnect servers
// and, where there are sandboxes, to run a command in theirs. Guests have none. They are called by CallOwn alone; their names
// never begin with ext_.
func (b *Bot) OwnTools(_ context.Context, c schemas.Caller) []schemas.Tool {
	if c.Role < schemas.Member {
		return nil
	}
	var all []schemas.Tool
	for _, t := range b.own {
		if t.Name != ownShell || b.opt.Sandboxes != nil {
			all = append(all, t.Tool)
		}
	}
	return all
}

// CallOwn calls one of OwnTools on a member's wish. What it does is done as the caller, whom arguments cannot name. What a person
// confirms on a card is put on the same card, to the caller, and waited for until they answer, the card's time is over or ctx
// ends; Waiting of the call is told so. After words of servers in Wary that are not believed, everything that does something is asked
// on a card, whatever a rule allows. Of the call, Caller, Tool, Args, Wary and Waiting count. What ran and failed is a Result with
// IsError; every error is a *schemas.Error, and then nothing was done, unless its code is CodeUnknown.
func (b *Bot) CallOwn(ctx context.Context, call schemas.Call) (schemas.Result, error) {
	began := b.opt.Now()
	res, err := b.callOwn(ctx, call)
	if err != nil {
		return schemas.Result{}, b.worded(call.Caller, err)
	}
	res.Server, res.Tool, res.RunsAs, res.Took, res.Size = ownServer, call.Tool, call.Caller.Member, b.opt.Now().Sub(began), len(res.Raw)
	return res, nil
}

func (b *Bot) callOwn(ctx context.Context, call schemas.Call) (schemas.Result, error) {
	c, name := call.Caller, call.Tool
	if !c.Thread.Valid() || !c.Member.Valid() || c.Role < schemas.Guest || c.Role > schemas.Owner {
		return schemas.Result{}, words.Invalid("this thread or member has no usable id", "")
	}
	if c.Role < schemas.Member {
		return schemas.Result{}, desk.Guest()
	}
	i := slices.IndexFunc(b.own, func(t ownTool) bool { return t.Name == name && (name != ownShell || b.opt.Sandboxes != nil) })
	if i < 0 {
		var known []string
		for _, t := range b.OwnTools(ctx, c) {
			known = append(known, t.Name)
		}
		return schemas.Result{}, words.NotFound("tool", name, known, "")
	}
	if err := b.own[i].arguments(call.Args); err != nil {
		return schemas.Result{}, err
	}
	asked := schemas.Record{Thread: c.Thread, Member: c.Member, Name: c.Name, Door: c.Door, Event: schemas.EventAsked, Origin: schemas.ByAssistant,
		Tool: name, Detail: "the assistant: " + name}
	if _, err := b.opt.Journal.Append(ctx, asked); err != nil {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written", Err: err}
	}
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	why := waryOf(cfg.Policy, call.Wary)
	switch name {
	case ownConnect:
		return b.ownConnect(ctx, call, why)
	case ownList:
		return b.ownList(ctx, c)
	case ownDisconnect:
		return b.ownDisconnect(ctx, call, why)
	case ownShell:
		return b.ownShell(ctx, call, b.own[i].Tool, why)
	}
	return b.ownInstall(ctx, call, why)
}

// waryOf says whose words the model read before, of servers that are not believed; "" if there are none.
func waryOf(p schemas.Policy, wary []string) string {
	var others []string
	for _, server := range wary {
		if server = words.Short(words.Clean(server), 60); server != ownServer && !p.Trusts(server) && !slices.Contains(others, server) {
			others = append(others, server)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return words.Short(strings.Join(others, ", "), 200) + " answered before it in this turn"
}

// worded makes every error one with words; what is nobody's business but the operator's becomes a reference number.
func (b *Bot) worded(c schemas.Caller, err error) error {
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code != schemas.CodeInternal {
		if e.Code == schemas.CodeUnknown && e.Hint == "" {
			e.Hint = ownList + " shows it"
		}
		return e
	}
	r := b.desk.Refusal(c, err)
	code := r.Code
	if code == "" {
		code = schemas.CodeInternal
	}
	return &schemas.Error{Code: code, Text: r.Blocks[0].Text, Err: err}
}

// arguments checks what a model gave against the schema; all mistakes at once, and no value in them.
func (t ownTool) arguments(args json.RawMessage) error {
	if len(args) > desk.MaxText {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: "the arguments are " + words.Size(len(args)) + "; at most " + words.Size(desk.MaxText)}
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || len(bytes.TrimSpace(args[d.InputOffset():])) > 0 {
		return words.Invalid("the arguments of "+t.Name+" are no JSON object", "")
	}
	err := t.check.Validate(v)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return words.Invalid("the arguments of "+t.Name+" cannot be checked", "")
	}
	var said []string
	mistaken(wrong, &said)
	return words.Invalid(t.Name+": "+strings.Join(said, "; "), "its input schema says what it takes")
}

// mistaken words the leaves of a validation error.
func mistaken(e *jsonschema.ValidationError, said *[]string) {
	if len(*said) >= maxMistakes {
		return
	}
	keyword := e.KeywordLocation[strings.LastIndexByte(e.KeywordLocation, '/')+1:]
	at := strings.ReplaceAll(strings.TrimPrefix(e.InstanceLocation, "/"), "/", ".")
	if plain, err := url.PathUnescape(at); err == nil {
		at = plain
	}
	if at != "" {
		at = words.Short(words.Clean(at), 100) + ": "
	}
	text := ""
	switch {
	case keyword == "anyOf":
		text = "id or name is missing"
	case strings.HasSuffix(e.KeywordLocation, "/propertyNames/pattern"):
		text = at + "a name must be letters, digits and _, a letter or _ first, at most 64"
	case len(e.Causes) > 0:
		for _, c := range e.Causes {
			mistaken(c, said)
		}
		return
	case keyword == "required":
		text = at + strings.ReplaceAll(strings.TrimPrefix(e.Message, "missing properties: "), "'", "") + " is missing"
	case keyword == "enum":
		text = at + "must be npm, git or pip"
	default:
		text = at + words.Short(words.Clean(e.Message), 200)
	}
	if !slices.Contains(*said, text) {
		*said = append(*said, text)
	}
}

// Masked gives the arguments of a call as they may be shown and written down: of a server's tool as they are, of anything else, which
// may be one of OwnTools with its name misspelt, without the values of env.
func (*Bot) Masked(name string, args json.RawMessage) json.RawMessage {
	if strings.HasPrefix(name, "ext_") || !bytes.Contains(bytes.ToLower(args), []byte("env")) && !bytes.Contains(args, []byte(`\u`)) {
		return args
	}
	return OwnArgs(args)
}

// mask is how a schemas.Secret prints.
const mask = "***"

// masked refuses what a model took from the masked arguments of a call before.
func masked(name string) error {
	return words.Invalid("env "+name+": "+mask+" is how a value is hidden, not a value", "leave it empty, and the member is asked for it")
}

// OwnArgs gives the arguments of a call of one of OwnTools as they may be shown and written down: without the values of env.
func OwnArgs(args json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return json.RawMessage("{}")
	}
	for name, raw := range all {
		if !strings.EqualFold(name, "env") {
			continue
		}
		var env map[string]json.RawMessage
		if json.Unmarshal(raw, &env) != nil {
			env = nil
		}
		hidden := map[string]string{}
		for k := range env {
			hidden[k] = mask
		}
		all[name], _ = json.Marshal(hidden)
	}
	out, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}
