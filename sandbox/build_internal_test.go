package sandbox

import "testing"

func TestUnreached(t *testing.T) {
	for why, want := range map[string]string{
		`Get "https://hub.example/v2/": dial tcp: lookup hub.example on 10.0.0.53:53: no such host`:          "it finds no host hub.example",
		`Get "https://hub.example:5000/v2/": dial tcp 10.1.2.3:5000: connect: connection refused`:            "hub.example:5000 does not answer it",
		`Get "https://hub.example/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting)`: "hub.example does not answer it",
		"pull access denied for x, repository does not exist or may require 'docker login'":                  "pull access denied for x, repository does not exist or may require 'docker login'",
	} {
		if got := unreached(why); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", why, got, want)
		}
	}
}
