// Package model opens the providers of models that an operator set up.
package model

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"bobbin/agent"
	"bobbin/agent/model/anthropic"
	"bobbin/agent/model/gemini"
	"bobbin/agent/model/openai"
	"bobbin/schemas"
)

// Settings are what an operator says about models. Providers are "anthropic", "openai", "gemini", "openrouter" and "ollama".
type Settings struct {
	// Models are "provider/model", or "http://host:port/v1|model" for any server that speaks Chat Completions. The first is
	// what threads have that did not choose. None = one for each provider with a key, and Ollama's if its URL is given.
	Models []string
	Keys   map[string]schemas.Secret // by provider
	URLs   map[string]string         // base URLs by provider; missing = the provider's own
	URLKey schemas.Secret            // for models that are given by their URL; may be empty
	HTTP   *http.Client              // nil = one of its own
}

// providers in the order in which they are taken when no model is named.
var providers = []struct{ name, key, keyToo, url, model string }{
	{"anthropic", "ANTHROPIC_API_KEY", "", "ANTHROPIC_BASE_URL", "claude-sonnet-5-5"},
	{"openai", "OPENAI_API_KEY", "", "OPENAI_BASE_URL", "gpt-6.1-terra"},
	{"gemini", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "gemini-3.8-flash"},
	{"openrouter", "OPENROUTER_API_KEY", "", "OPENROUTER_BASE_URL", "anthropic/claude-sonnet-5.5"},
	{"ollama", "OLLAMA_API_KEY", "", "OLLAMA_HOST", "qwen3"},
}

// FromEnv reads the variables that the providers' own tools read, and BOBBIN_MODEL_KEY for models that are given by their URL.
func FromEnv(get func(string) string) Settings {
	s := Settings{Keys: map[string]schemas.Secret{}, URLs: map[string]string{}}
	for _, p := range providers {
		key := strings.TrimSpace(get(p.key))
		if key == "" && p.keyToo != "" {
			key = strings.TrimSpace(get(p.keyToo))
		}
		if key != "" {
			s.Keys[p.name] = schemas.NewSecret(key)
		}
		if u := strings.TrimSpace(get(p.url)); u != "" {
			s.URLs[p.name] = u
		}
	}
	if host, ok := s.URLs["ollama"]; ok {
		s.URLs["ollama"] = ollamaURL(host)
	}
	s.URLKey = schemas.NewSecret(strings.TrimSpace(get("BOBBIN_MODEL_KEY")))
	return s
}

// ollamaURL reads OLLAMA_HOST as Ollama does: a scheme and a port may be missing, and a server's 0.0.0.0 means this machine.
func ollamaURL(host string) string {
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return host
	}
	name, port := u.Hostname(), u.Port()
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1"
	}
	if port == "" && u.Scheme == "http" {
		port = "11434"
	}
	if u.Host = name; port != "" {
		u.Host = net.JoinHostPort(name, port)
	}
	if path := strings.TrimRight(u.Path, "/"); !strings.HasSuffix(path, "/v1") {
		u.Path = path + "/v1"
	}
	return u.String()
}

// Open gives the models that may be chosen, in the settings' order; none if nothing is set up. It asks nobody: whether a key is
// good shows with the first request. Every mistake in the settings is a *schemas.Error with words.
func Open(s Settings) ([]agent.Choice, error) {
	if s.HTTP == nil {
		s.HTTP = client()
	}
	if len(s.Models) == 0 {
		s.Models = defaults(s)
	}
	var choices []agent.Choice
	opened := map[string]agent.Provider{}
	var wrong []error
	for _, ref := range s.Models {
		name, base, model, err := split(ref)
		if err == nil && opened[name+"|"+base] == nil {
			opened[name+"|"+base], err = open(s, name, base)
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		c := agent.Choice{Name: name + "/" + model, Provider: opened[name+"|"+base], Model: model, Window: window(model)}
		if !slices.ContainsFunc(choices, func(o agent.Choice) bool { return o.Name == c.Name }) {
			choices = append(choices, c)
		}
	}
	return choices, errors.Join(wrong...)
}

func defaults(s Settings) (models []string) {
	for _, p := range providers {
		if s.Keys[p.name].Reveal() != "" || p.name == "ollama" && s.URLs[p.name] != "" {
			models = append(models, p.name+"/"+p.model)
		}
	}
	return models
}

// split reads one of Settings.Models. A model given by its URL has the host for a provider.
func split(ref string) (name, base, model string, err error) {
	ref = strings.TrimSpace(ref)
	if strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://") {
		base, model, _ = strings.Cut(ref, "|")
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || model == "" {
			return "", "", "", invalid(`a model given by its URL is written "http://host:port/v1|name"`, "")
		}
		return u.Host, base, model, nil
	}
	name, model, _ = strings.Cut(ref, "/")
	if name == "google" {
		name = "gemini"
	}
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.name
	}
	switch {
	case slices.Contains(names, name) && model != "":
		return name, "", model, nil
	case slices.Contains(names, name):
		return "", "", "", invalid(name+" needs a model's name, too", "write "+name+"/"+providers[slices.Index(names, name)].model)
	case strings.HasPrefix(ref, "claude-"):
		return "", "", "", invalid("a model needs its provider", "write anthropic/"+ref)
	}
	for _, known := range names {
		if levenshtein.ComputeDistance(name, known) <= 2 {
			return "", "", "", invalid("there is no provider "+shown(name), `did you mean "`+known+`"?`)
		}
	}
	return "", "", "", invalid("there is no provider "+shown(name), "one of "+strings.Join(names, ", ")+`, or "http://host:port/v1|name"`)
}

var odd = regexp.MustCompile(`[^A-Za-z0-9_.:-]`)

func shown(name string) string {
	name = odd.ReplaceAllString(name, "")
	return `"` + name[:min(len(name), 40)] + `"`
}

func invalid(text, hint string) error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint}
}

func open(s Settings, name, base string) (agent.Provider, error) {
	if base != "" {
		return openai.New(openai.Options{Name: name, Key: s.URLKey, BaseURL: base, HTTP: s.HTTP})
	}
	key, at := s.Keys[name], s.URLs[name]
	switch name {
	case "anthropic":
		return anthropic.New(anthropic.Options{Key: key, BaseURL: at, HTTP: s.HTTP})
	case "gemini":
		return gemini.New(gemini.Options{Key: key, BaseURL: at, HTTP: s.HTTP})
	case "openai":
		return openai.New(openai.Options{Key: key, BaseURL: at, HTTP: s.HTTP, Responses: ofOpenAI(at)})
	case "openrouter":
		if at == "" {
			at = "https://openrouter.ai/api/v1"
		}
		return openai.New(openai.Options{Name: name, Key: key, KeyName: "OPENROUTER_API_KEY", BaseURL: at, HTTP: s.HTTP})
	default:
		if at == "" {
			at = "http://127.0.0.1:11434/v1"
		}
		return openai.New(openai.Options{Name: name, Key: key, BaseURL: at, HTTP: s.HTTP, Start: "ollama serve"})
	}
}

// ofOpenAI reports whether a base URL is OpenAI's own, and not that of somebody who offers its older API.
func ofOpenAI(base string) bool {
	u, err := url.Parse(base)
	return base == "" || err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// windows are the tokens that models read at most, for those that say so. The first that matches is taken.
var windows = []struct {
	model  *regexp.Regexp
	tokens int
}{
	{regexp.MustCompile(`\Aclaude-[a-z]+-5`), 1_000_000},
	{regexp.MustCompile(`\Aclaude-`), 200_000},
	{regexp.MustCompile(`\Agpt-(6|5\.[56])`), 922_000},
	{regexp.MustCompile(`\Agpt-5`), 272_000},
	{regexp.MustCompile(`\Agpt-4\.1`), 1_047_576},
	{regexp.MustCompile(`\Agpt-4o`), 128_000},
	{regexp.MustCompile(`\Ao[34](-|\z)`), 200_000},
	{regexp.MustCompile(`\Agemini-(2\.5|3)`), 1_048_576},
}

func window(model string) int {
	name := model[strings.LastIndexByte(model, '/')+1:]
	for _, w := range windows {
		if w.model.MatchString(name) {
			return w.tokens
		}
	}
	return 0
}

// client is for hosts that the operator chose: on this machine, in this network or outside.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
		// A stream over a connection that died without a word ends in seconds, and not after the pause that a model may make.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}}
}
