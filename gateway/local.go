package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	servingFile = "serving.json"
	ticketHead  = "bobbin-local."
	ticketTime  = 5 * time.Minute
	maxNonce    = 64
)

// serving says where a bobbin serves this data folder.
type serving struct {
	Origin string `json:"origin"`
}

// Announce lets programs of this data folder's owner find this gateway at origin, until ctx ends: they come instead of starting the thread's
// servers once more.
func (g *Gateway) Announce(ctx context.Context, origin string) error {
	if _, err := g.tokens.signing(ctx); err != nil { // which they need
		return err
	}
	if err := g.opt.Tokens.Write(servingFile, encode(serving{origin})); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "where bobbin serves cannot be written down", Err: err}
	}
	<-ctx.Done()
	return g.opt.Tokens.Remove(servingFile)
}

// authenticate is the HMAC of parts, for one purpose, with the key of the data folder: whoever can read that may do everything anyway.
func authenticate(key []byte, purpose string, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range append([]string{purpose}, parts...) {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return h.Sum(nil)
}

// prove shows a program on this machine that this is the bobbin of its data folder, at the address that it asked. Who relays the question
// from another port gets a proof that is good for nothing.
func (g *Gateway) prove(w http.ResponseWriter, r *http.Request) {
	nonce := r.URL.Query().Get("nonce")
	key, err := g.tokens.signing(r.Context())
	if err != nil || len(nonce) < 16 || len(nonce) > maxNonce || !loopback(r.Host) {
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	_, _ = w.Write([]byte(base64.RawURLEncoding.EncodeToString(authenticate(key, "proof", r.Host, nonce))))
}

// ticket is what a program bears that has the data folder's key: who it is, for a few minutes.
type ticket struct {
	Thread schemas.ThreadID `json:"thread"`
	Member schemas.MemberID `json:"member"`
	Person string           `json:"person"`
	Until  int64            `json:"until"`
}

func newTicket(key []byte, c schemas.Caller, now time.Time) string {
	payload := base64.RawURLEncoding.EncodeToString(encode(ticket{c.Thread, c.Member, c.Name, now.Add(ticketTime).Unix()}))
	return ticketHead + payload + "." + base64.RawURLEncoding.EncodeToString(authenticate(key, "ticket", payload))
}

// admits says who bears a ticket.
func (s *tokens) admits(ctx context.Context, thread schemas.ThreadID, secret string) (token, error) {
	payload, mac, ok := strings.Cut(strings.TrimPrefix(secret, ticketHead), ".")
	key, err := s.signing(ctx)
	if err != nil {
		return token{}, err
	}
	given, err := base64.RawURLEncoding.DecodeString(mac)
	if !ok || err != nil || !hmac.Equal(given, authenticate(key, "ticket", payload)) {
		return token{}, errToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	var t ticket
	if err != nil || json.Unmarshal(raw, &t) != nil {
		return token{}, errToken
	}
	left := time.Unix(t.Until, 0).Sub(s.now())
	if t.Thread != thread || !t.Member.Valid() || left <= 0 || left > 2*ticketTime {
		return token{}, errToken
	}
	return token{ID: localID + string(t.Member), Thread: t.Thread, Member: t.Member, Person: t.Person}, nil
}

// localID begins what stands for a token's id where there is a ticket; no token has such an id.
const localID = "local:"

// nearby finds the gateway that serves a data folder on this machine; "" when none does.
func nearby(ctx context.Context, dir *durable.Dir, web *http.Client) (origin string, key []byte) {
	var k kept
	at := announced(dir)
	raw, err := dir.Read(tokenFile, maxFile)
	if err != nil || json.Unmarshal(raw, &k) != nil || len(k.Key) == 0 {
		return "", nil
	}
	host, ok := strings.CutPrefix(at, "http://")
	if !ok || !loopback(host) {
		return "", nil
	}
	nonce := rand.Text()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/api/mcp/proof?nonce="+nonce, nil)
	if err != nil {
		return "", nil
	}
	resp, err := web.Do(req)
	if err != nil {
		return "", nil
	}
	defer func() { _ = resp.Body.Close() }()
	proof := make([]byte, 64)
	n, _ := resp.Body.Read(proof)
	given, err := base64.RawURLEncoding.DecodeString(string(proof[:n]))
	if err != nil || resp.StatusCode != http.StatusOK || !hmac.Equal(given, authenticate(k.Key, "proof", host, nonce)) {
		return "", nil
	}
	return at, k.Key
}

// announced is where a bobbin says that it serves a data folder; "" if none does. It may have been killed since.
func announced(dir *durable.Dir) string {
	var at serving
	raw, err := dir.Read(servingFile, 4<<10)
	if err != nil || json.Unmarshal(raw, &at) != nil {
		return ""
	}
	return at.Origin
}
