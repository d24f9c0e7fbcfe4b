package session

import "testing"

func TestScanEnvelope(t *testing.T) {
	e, err := scanEnvelope([]byte(`{"jsonrpc":"2.0","id": 7 ,"result":{"id":8,"s":"\"id\":9"}}`))
	if err != nil || string(e.id) != "7" || string(e.result) != `{"id":8,"s":"\"id\":9"}` || e.method != nil || e.err != nil {
		t.Fatalf("got %q %q, %v", e.id, e.result, err)
	}
}

// As PHP and a program with another character set write them.
func TestScanEnvelope_AsServersWrite(t *testing.T) {
	e, err := scanEnvelope([]byte("{\"method\":\"notifications\\/progress\",\"params\":{\"message\":\"\xe4\"}}"))
	if err != nil || string(e.method) != `"notifications/progress"` || string(e.params) != "{\"message\":\"\ufffd\"}" {
		t.Fatalf("got %q %q, %v", e.method, e.params, err)
	}
}

func TestCompactObject(t *testing.T) {
	for in, want := range map[string]string{"": "{}", "{\n\"a\":\r\n1}": `{"a":1}`, ` {"a": "b"} `: `{"a": "b"}`, "[]": "", "{": ""} {
		got, err := compactObject([]byte(in))
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("compactObject(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}
