package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"bobbin/agent"
	"bobbin/agent/model/modeltest"
)

// canned gives the same bytes to every request, in pieces.
type canned struct {
	data []byte
	size int
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.NopCloser(&small{bytes.NewReader(c.data), c.size})
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

type small struct {
	from io.Reader
	size int
}

func (s *small) Read(p []byte) (int, error) { return s.from.Read(p[:min(len(p), s.size)]) }

func FuzzAnthropic(f *testing.F) { fuzz(f, "anthropic") }
func FuzzOpenAI(f *testing.F)    { fuzz(f, "openai") }
func FuzzGemini(f *testing.F)    { fuzz(f, "gemini") }
func FuzzResponses(f *testing.F) { fuzz(f, "responses") }

// fuzz sends streams that no provider would: whatever comes, a stream ends once, with an end or with words, and what it gave
// is within the limits and can be stored.
func fuzz(f *testing.F, name string) {
	var m maker
	for _, m = range makers() {
		if m.label == name {
			break
		}
	}
	request := agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}}
	seed := &recorder{}
	s := m.serve(f, modeltest.Answer{Thinking: "hm", Text: "ab", Calls: []modeltest.Call{{Name: "t", Args: `{"a":1}`}, {Name: "u"}}}, modeltest.Answer{Text: "a longer text in pieces", Cut: 4, Broken: modeltest.Overloaded})
	p, err := m.open(s.URL, modeltest.Key, &http.Client{Transport: seed})
	if err != nil {
		f.Fatal(err)
	}
	for range 2 {
		for range p.Stream(f.Context(), request) {
		}
		f.Add(seed.got.Bytes(), uint8(200))
		seed.got.Reset()
	}
	f.Add([]byte("data: [DONE]\n\n"), uint8(1))
	f.Add([]byte("event: error\ndata: {\"error\":null}\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		p, err := m.open("http://model.example", modeltest.Key, &http.Client{Transport: canned{data, int(size) + 1}})
		if err != nil {
			t.Fatal(err)
		}
		var text, whole strings.Builder
		ends, calls := 0, 0
		for e, err := range p.Stream(t.Context(), request) {
			if ends > 0 {
				t.Fatal("something after the end")
			}
			switch {
			case err != nil:
				ends++
				var f *agent.Failure
				if !errors.As(err, &f) || f.Text == "" || strings.ContainsAny(f.Text, "\n<") {
					t.Fatalf("%v", err)
				}
			case e.Kind == agent.EventRetry:
				if e.Wait > time.Minute || e.Wait <= 0 {
					t.Fatalf("waits %s", e.Wait)
				}
				return // it would be waited for
			case e.Kind == agent.EventEnd:
				ends++
				if calls > 0 && e.Stop == agent.StopDone || e.Stop == "" {
					t.Fatalf("%d calls, stop %q", calls, e.Stop)
				}
				if text.String() != whole.String() && name != "anthropic" && name != "responses" { // whose blocks may interleave
					t.Fatalf("shown %q, whole %q", text.String(), whole.String())
				}
			case e.Kind == agent.EventText:
				text.WriteString(e.Text)
			case e.Kind == agent.EventPart:
				whole.WriteString(e.Part.Text)
				if _, err := json.Marshal(e.Part); err != nil {
					t.Fatal(err)
				}
				if c := e.Part.Call; c != nil {
					calls++
					var args map[string]any
					if c.ID == "" || c.Name == "" || json.Unmarshal(c.Args, &args) != nil || args == nil {
						t.Fatalf("%+v", c)
					}
				}
			}
		}
		if ends != 1 {
			t.Fatal("no end")
		}
	})
}

// recorder keeps what came, for seeds.
type recorder struct{ got bytes.Buffer }

func (b *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(res.Body, &b.got), res.Body}
	}
	return res, err
}
