package link_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host answers requests, one after the other, without a network, so that time may be synctest's.
type host struct {
	answers []func(*http.Request) (*http.Response, error)
	at      []time.Time
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.at = append(h.at, time.Now())
	return h.answers[min(len(h.at), len(h.answers))-1](r)
}

func status(code int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		res := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		for i := 0; i+1 < len(header); i += 2 {
			res.Header.Set(header[i], header[i+1])
		}
		return res, nil
	}
}

// stuck is a body that gives a piece and then nothing until the request is ended.
func stuck(first string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		in, out := io.Pipe()
		go func() {
			io.WriteString(out, first)
			<-r.Context().Done()
			out.CloseWithError(r.Context().Err())
		}()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: in, Request: r}, nil
	}
}

func open(t *testing.T, h *host) *link.Link {
	t.Helper()
	l, err := link.New(link.Options{Name: "prov", Key: schemas.NewSecret("secret-key-123"), KeyName: "PROV_KEY", BaseURL: "https://prov.example/v1", HTTP: &http.Client{Transport: h}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run asks, and reads the answer as text.
func run(ctx context.Context, l *link.Link) (text string, retries []time.Duration, last error) {
	once := func(ctx context.Context, t *link.Try, a *link.Answer) (link.End, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", l.BaseURL(), nil)
		if err != nil {
			return link.End{}, err
		}
		res, err := t.Client().Do(req)
		if err != nil {
			return link.End{}, err
		}
		defer res.Body.Close()
		buf := make([]byte, 1000)
		for {
			n, err := res.Body.Read(buf)
			if err := a.Text(string(buf[:n])); err != nil {
				return link.End{}, err
			}
			if err == io.EOF {
				return link.End{Stop: agent.StopDone}, nil
			}
		}
	}
	for e, err := range l.Run(ctx, "mod", once) {
		switch {
		case err != nil:
			last = err
		case e.Kind == agent.EventRetry:
			retries = append(retries, e.Wait)
		case e.Kind == agent.EventText:
			text += e.Text
		}
	}
	return text, retries, last
}

func TestWaits(t *testing.T) {
	type answers = []func(*http.Request) (*http.Response, error)
	ok := status(200, "fine", "Content-Type", "text/event-stream")
	date := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC).Format(http.TimeFormat) // synctest begins at midnight
	for name, c := range map[string]struct {
		answers answers
		tries   int
		took    [2]time.Duration // from, to
		words   string
	}{
		"Retry-After in seconds":         {answers{status(429, "", "Retry-After", "12"), ok}, 2, [2]time.Duration{12e9, 12e9}, ""},
		"Retry-After as a date":          {answers{status(503, "", "Retry-After", date), ok}, 2, [2]time.Duration{7e9, 7e9}, ""},
		"retry-after-ms comes first":     {answers{status(529, "", "Retry-After", "50", "Retry-After-Ms", "250"), ok}, 2, [2]time.Duration{250e6, 250e6}, ""},
		"OpenAI's limits":                {answers{status(429, "", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20s", "X-Ratelimit-Remaining-Tokens", "9", "X-Ratelimit-Reset-Tokens", "6m0s"), ok}, 2, [2]time.Duration{20e9, 20e9}, ""},
		"Anthropic's limits":             {answers{status(429, "", "Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2000-01-01T00:00:30Z"), ok}, 2, [2]time.Duration{30e9, 30e9}, ""},
		"OpenRouter's limits":            {answers{status(429, "", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", fmt.Sprint(time.Date(2000, 1, 1, 0, 0, 9, 0, time.UTC).UnixMilli())), ok}, 2, [2]time.Duration{9e9, 9e9}, ""},
		"Gemini's delay in the body":     {answers{status(429, `{"error":{"code":429,"details":[{"@type":"x"},{"retryDelay":"17s"}]}}`), ok}, 2, [2]time.Duration{17e9, 17e9}, ""},
		"nothing said":                   {answers{status(500, ""), ok}, 2, [2]time.Duration{500e6, 1500e6}, ""},
		"four times":                     {answers{status(500, "")}, 4, [2]time.Duration{3500e6, 10500e6}, "prov failed by itself"},
		"60 s in all":                    {answers{status(429, "", "Retry-After", "25")}, 3, [2]time.Duration{50e9, 50e9}, "prov takes no more requests just now"},
		"too long to wait":               {answers{status(429, "", "Retry-After", "61")}, 1, [2]time.Duration{0, 0}, "prov takes no more requests just now"},
		"408 and 409":                    {answers{status(408, "", "Retry-After", "1"), status(409, "", "Retry-After", "1"), ok}, 3, [2]time.Duration{2e9, 2e9}, ""},
		"400 is final":                   {answers{status(400, "")}, 1, [2]time.Duration{0, 0}, "prov does not take the request"},
		"never begins":                   {answers{func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }}, 1, [2]time.Duration{120e9, 120e9}, "prov did not begin to answer within 2 minutes"},
		"goes silent":                    {answers{stuck("a word")}, 1, [2]time.Duration{300e9, 300e9}, "prov sent nothing for 5 minutes"},
		"a broken connection":            {answers{func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, ok}, 2, [2]time.Duration{500e6, 1500e6}, ""},
		"a number that is too large":     {answers{status(429, "", "Retry-After", "99999999999999999999")}, 1, [2]time.Duration{0, 0}, "prov takes no more requests just now"},
		"a number below zero, and words": {answers{status(429, "", "Retry-After", "-5"), status(429, "", "Retry-After", "soon"), ok}, 3, [2]time.Duration{1500e6, 4500e6}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{answers: c.answers}
				start := time.Now()
				text, retries, err := run(t.Context(), open(t, h))
				took := time.Since(start)
				if len(h.at) != c.tries || len(retries) != c.tries-1 || took < c.took[0] || took > c.took[1] {
					t.Errorf("%d tries in %s, %v", len(h.at), took, retries)
				}
				var f *agent.Failure
				if c.words == "" && (err != nil || text != "fine") || c.words != "" && (!errors.As(err, &f) || f.Text != c.words) {
					t.Errorf("%q, %v", text, err)
				}
			})
		})
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := run(ctx, open(t, &host{answers: []func(*http.Request) (*http.Response, error){status(429, "", "Retry-After", "30")}}))
		if took := time.Since(start); took != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// TestKeyStaysHome checks that the key is in nothing that a person or a log may see, whatever the other side does with it.
func TestKeyStaysHome(t *testing.T) {
	const key = "secret-key-123"
	for _, body := range []string{key, `{"error":"` + key + `"}`, `{"error":{"message":"no ` + key + `","type":"` + key + `","code":"` + key + `"}}`, `{"detail":"` + key + `"}`} {
		for _, code := range []int{400, 401, 403, 404, 413, 418, 500} {
			_, _, err := run(t.Context(), open(t, &host{answers: []func(*http.Request) (*http.Response, error){status(code, body, "Retry-After", "100")}}))
			var f *agent.Failure
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			for e := error(f); e != nil; e = errors.Unwrap(e) {
				if all := fmt.Sprintf("%v %+v %#v", e, e, e) + f.Hint; strings.Contains(all, key) {
					t.Errorf("%d %s: %s", code, body, all)
				}
			}
		}
	}
	for _, err := range []error{errors.New(key), &url.Error{Op: "Get", URL: key, Err: io.EOF}} {
		h := &host{answers: []func(*http.Request) (*http.Response, error){func(*http.Request) (*http.Response, error) { return nil, err }}}
		ended := 0
		for e := range open(t, h).Run(t.Context(), "mod", func(ctx context.Context, t *link.Try, _ *link.Answer) (link.End, error) {
			req, _ := http.NewRequestWithContext(ctx, "GET", "https://prov.example", nil)
			_, err := t.Client().Do(req)
			return link.End{}, err
		}) {
			if e.Kind == agent.EventRetry { // the words of the failure, with its cause
				ended++
				if strings.Contains(e.Text, key) {
					t.Error(e.Text)
				}
				break
			}
		}
		if ended != 1 {
			t.Error("it was not asked again")
		}
	}
}

// expired ends soon, so that nothing is asked again for long.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestOptions(t *testing.T) {
	good := link.Options{Name: "prov", BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: &host{}}}
	if _, err := link.New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*link.Options){
		"no name":       func(o *link.Options) { o.Name = "" },
		"no transport":  func(o *link.Options) { o.HTTP = &http.Client{} },
		"no client":     func(o *link.Options) { o.HTTP = nil },
		"no key":        func(o *link.Options) { o.KeyName = "K" },
		"a broken key":  func(o *link.Options) { o.Key = schemas.NewSecret("a b") },
		"no URL":        func(o *link.Options) { o.BaseURL = "" },
		"a file":        func(o *link.Options) { o.BaseURL = "file:///etc/passwd" },
		"a user in it":  func(o *link.Options) { o.BaseURL = "https://u:p@prov.example" },
		"a query in it": func(o *link.Options) { o.BaseURL = "https://prov.example?key=1" },
	} {
		o := good
		change(&o)
		if _, err := link.New(o); err == nil || strings.Contains(err.Error(), "a b") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchema(t *testing.T) {
	for in, want := range map[string]string{
		``:                               `map[properties:map[] type:object] `,
		`[]`:                             `map[properties:map[] type:object] `,
		`{"type":"string","x":1}`:        `map[properties:map[] type:object x:1] `,
		`{"properties":{},"anyOf":[{}]}`: `map[properties:{} type:object] The arguments must match, too: anyOf: [{}]`,
	} {
		schema, words := link.Schema([]byte(in))
		for k, v := range schema {
			if raw, ok := v.(interface{ MarshalJSON() ([]byte, error) }); ok {
				b, _ := raw.MarshalJSON()
				schema[k] = string(b)
			}
		}
		if got := fmt.Sprint(schema) + " " + words; got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestPanics(t *testing.T) {
	l := open(t, &host{})
	var f *agent.Failure
	for _, err := range l.Run(expired(t), "mod", func(_ context.Context, _ *link.Try, a *link.Answer) (link.End, error) {
		if err := a.Text("begun"); err != nil {
			return link.End{}, err
		}
		panic("an SDK")
	}) {
		errors.As(err, &f)
	}
	if f == nil || f.Text != "prov sent something that is no answer" {
		t.Errorf("%v", f)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("%v", r)
		}
	}()
	for range l.Run(t.Context(), "mod", func(_ context.Context, _ *link.Try, a *link.Answer) (link.End, error) {
		return link.End{}, a.Text("begun")
	}) {
		panic("mine")
	}
}
