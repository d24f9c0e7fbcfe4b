// Package link is what the providers of models have in common: the way to a host, with its timeouts and limits, when to ask
// again, and what went wrong in words.
package link

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bobbin/agent"
	"bobbin/schemas"
)

// Options say where a provider is and how it is called.
type Options struct {
	Name    string         // "anthropic": the part of a model's name before the slash
	Key     schemas.Secret // "" = none is sent
	KeyName string         // "ANTHROPIC_API_KEY": what the operator has to check; "" = it needs none
	BaseURL string         // http or https, without query and user
	HTTP    *http.Client   // for hosts that the operator chose; its Timeout and redirects are not used
	Start   string         // "ollama serve": how a server on this machine is started; "" = unknown
}

// Link is the way to one provider. It is safe for concurrent use.
type Link struct {
	o    Options
	host string
}

// New checks the options.
func New(o Options) (*Link, error) {
	switch {
	case o.Name == "":
		return nil, errors.New("a provider needs a name")
	case o.HTTP == nil || o.HTTP.Transport == nil:
		return nil, fmt.Errorf("%s: no HTTP client was given, or one without a transport", o.Name)
	case o.KeyName != "" && o.Key.Reveal() == "":
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: o.Name + " needs a key", Hint: "set " + o.KeyName}
	case strings.ContainsFunc(o.Key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: o.Name + ": the key has spaces, line breaks or other characters that no key has", Hint: "set it again" + o.at()}
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: o.Name + ": the base URL must be http://… or https://…, without user, query and fragment"}
	}
	return &Link{o: o, host: u.Scheme + "://" + u.Host}, nil
}

func (o Options) at() string {
	if o.KeyName == "" {
		return ""
	}
	return " as " + o.KeyName
}

// Model is how schemas.Model names one of the provider's models.
func (l *Link) Model(name string) string { return l.o.Name + "/" + name }

// Key is the key, for the SDK's header.
func (l *Link) Key() string { return l.o.Key.Reveal() }

// BaseURL ends with a slash.
func (l *Link) BaseURL() string { return strings.TrimRight(l.o.BaseURL, "/") + "/" }

// Mine is a part's opaque form if the model that is asked made it, and nil otherwise.
func (l *Link) Mine(p agent.Part, model string) []byte {
	if p.Opaque == nil || p.Opaque.Model != l.Model(model) || len(p.Opaque.Data) == 0 {
		return nil
	}
	return p.Opaque.Data
}

// Limits of asking again.
const (
	maxTries = 4
	maxTime  = time.Minute
)

// errStop says that nobody listens any more.
var errStop = errors.New("stopped")

// Run asks until an answer comes: once does one try. It sends with t.Client() and closes what it opened; what it returns, a
// *Refusal or anything else, is put in words here. An error of the connection need not be passed on: t keeps it.
func (l *Link) Run(ctx context.Context, model string, once func(ctx context.Context, t *Try, a *Answer) (End, error)) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		start := time.Now()
		for n := 1; ; n++ {
			a := &Answer{yield: func(e agent.Event) bool { return yield(e, nil) }}
			end, err := l.try(ctx, a, once)
			switch {
			case a.stopped:
				return
			case ctx.Err() != nil:
				yield(agent.Event{}, ctx.Err())
				return
			case err == nil:
				yield(agent.Event{Kind: agent.EventEnd, Tokens: end.Tokens, Stop: end.Stop}, nil)
				return
			}
			f := l.words(err, model)
			f.Cut = a.begun && f.broken
			wait := f.after
			if wait == 0 {
				wait = time.Second<<(n-1)/2 + rand.N(time.Second<<(n-1)/2)
			}
			if !f.again || a.begun || n == maxTries || time.Since(start)+wait > maxTime {
				if f.again && !a.begun && f.after > 0 {
					f.Hint = "try again in " + about(f.after)
				}
				yield(agent.Event{}, &f.Failure)
				return
			}
			if !yield(agent.Event{Kind: agent.EventRetry, Wait: wait, Text: f.Text}, nil) {
				return
			}
			if !pause(ctx, wait) {
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (l *Link) try(ctx context.Context, a *Answer, once func(context.Context, *Try, *Answer) (End, error)) (end End, err error) {
	t := newTry(l.o.HTTP)
	defer t.close()
	defer func() {
		// An SDK may panic at JSON of a form that it does not expect. A panic of the one who listens is none of ours.
		if !a.showing && recover() != nil {
			err = ErrGarbled
		}
	}()
	end, err = once(ctx, t, a)
	var limit *limitError
	if errors.Is(err, errStop) || errors.As(err, &limit) {
		return end, err
	}
	if cause := t.cause(); cause != nil {
		return end, cause
	}
	return end, err
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func about(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
