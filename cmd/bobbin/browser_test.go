package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// browser plays a person's browser at plain pages: it keeps cookies, follows redirects, and sends the one form of a page.
type browser struct {
	http  *http.Client
	trail []string // addresses without their queries
}

func newBrowser(transport http.RoundTripper) *browser {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &browser{http: &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

var (
	aForm   = regexp.MustCompile(`(?is)<form[^>]*>.*?</form>`)
	anAttr  = regexp.MustCompile(`(?is)\b(action|method|name|value|type)\s*=\s*"([^"]*)"`)
	anIn    = regexp.MustCompile(`(?is)<input[^>]*>`)
	anAbort = regexp.MustCompile(`(?is)href="([^"]*/abort)"`)
	output  = regexp.MustCompile(`(?is)<output[^>]*>([^<]*)</output>`)
)

func attrs(tag string) map[string]string {
	m := map[string]string{}
	for _, a := range anAttr.FindAllStringSubmatch(tag, -1) {
		m[strings.ToLower(a[1])] = html.UnescapeString(a[2])
	}
	return m
}

// walk opens an address and goes on, by redirects and by sending forms with fields filled in, until a page without a form. It gives
// that page. With a field "refuse" it does not agree to what the authorization server asks.
func (b *browser) walk(ctx context.Context, address string, fields map[string]string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	for range 30 {
		b.trail = append(b.trail, req.Method+" "+req.URL.Host+req.URL.Path)
		resp, err := b.http.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		_ = resp.Body.Close()
		if err != nil {
			return "", err
		}
		if to := resp.Header.Get("Location"); to != "" {
			next, err := req.URL.Parse(to)
			if err != nil {
				return "", err
			}
			if req, err = http.NewRequestWithContext(ctx, http.MethodGet, next.String(), nil); err != nil {
				return "", err
			}
			continue
		}
		if m := anAbort.FindStringSubmatch(string(body)); m != nil && fields["refuse"] != "" && !strings.Contains(string(body), `name="login"`) {
			next, err := req.URL.Parse(m[1])
			if err != nil {
				return "", err
			}
			if req, err = http.NewRequestWithContext(ctx, http.MethodGet, next.String(), nil); err != nil {
				return "", err
			}
			continue
		}
		form := aForm.FindString(string(body))
		if form == "" {
			return string(body), nil
		}
		head, _, _ := strings.Cut(form, ">")
		values := url.Values{}
		for _, in := range anIn.FindAllString(form, -1) {
			a := attrs(in)
			if a["name"] == "" {
				continue
			}
			if v, ok := fields[a["name"]]; ok {
				a["value"] = v
			}
			values.Set(a["name"], a["value"])
		}
		next, err := req.URL.Parse(attrs(head)["action"])
		if err != nil {
			return "", err
		}
		from := req.URL
		if req, err = http.NewRequestWithContext(ctx, http.MethodPost, next.String(), strings.NewReader(values.Encode())); err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", from.Scheme+"://"+from.Host)
	}
	return "", fmt.Errorf("the browser went round and round: %v", errors.New(strings.Join(b.trail, " → ")))
}
