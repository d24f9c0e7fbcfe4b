package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	tokenFile  = "tokens.json"
	maxFile    = 8 << 20
	maxTokens  = 20 // of one member in one thread
	maxAll     = 20_000
	maxName    = 64  // characters
	maxSecret  = 256 // bytes of what a client brings
	lockWait   = 10 * time.Second
	freshFor   = time.Second // another process may have revoked a token since
	usedEvery  = time.Minute // how exact the time of the last use is
	secretHead = "bobbin_"
)

// tokens keeps who may use the gateway. Several processes may use one folder.
type tokens struct {
	dir *durable.Dir
	now func() time.Time

	mu   sync.Mutex
	read time.Time // when the file was last read
	raw  string    // durable.Sum of it
	all  map[string]*token
	key  []byte
	used map[string]time.Time // not on disk yet
}

// token is one as it is kept.
type token struct {
	ID     string           `json:"id"`
	Hash   string           `json:"sha256"`
	Thread schemas.ThreadID `json:"thread"`
	Member schemas.MemberID `json:"member"`
	Person string           `json:"person,omitempty"`
	Name   string           `json:"name,omitempty"`
	Made   time.Time        `json:"made"`
	Used   time.Time        `json:"used,omitzero"`
	Until  time.Time        `json:"until,omitzero"`
}

func (t *token) shown() schemas.GatewayToken {
	return schemas.GatewayToken{ID: t.ID, Thread: t.Thread, Member: t.Member, Person: t.Person, Name: t.Name, Made: t.Made, Used: t.Used, Until: t.Until}
}

// kept is the file. Key signs session ids, so that sessions outlive a restart.
type kept struct {
	Key    []byte   `json:"key"`
	Tokens []*token `json:"tokens"`
}

// Make gives the caller a new token for their thread; the secret is given this once. ttl 0 is until it is revoked.
func (g *Gateway) Make(ctx context.Context, c schemas.Caller, name string, ttl time.Duration) (schemas.GatewayToken, string, error) {
	if c.Role < schemas.Member || !c.Member.Valid() || !c.Thread.Valid() {
		return schemas.GatewayToken{}, "", &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look here, not use tools", Hint: "ask a member of the thread"}
	}
	name = strings.TrimSpace(schemas.Clean(name, true))
	if len([]rune(name)) > maxName {
		return schemas.GatewayToken{}, "", &schemas.Error{Code: schemas.CodeInvalid, Text: "the name of a token has at most 64 characters"}
	}
	id := strings.ToLower(rand.Text()[:8])
	secret := secretHead + id + "_" + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(secret))
	now := g.tokens.now().UTC().Truncate(time.Second)
	t := &token{ID: id, Hash: hex.EncodeToString(sum[:]), Thread: c.Thread, Member: c.Member, Person: cmp.Or(c.Name, string(c.Member)), Name: name, Made: now}
	if ttl > 0 {
		t.Until = now.Add(ttl)
	}
	err := g.tokens.change(ctx, func(all map[string]*token) error {
		mine := 0
		for _, o := range all {
			if o.Thread == c.Thread && o.Member == c.Member {
				mine++
			}
		}
		switch {
		case mine >= maxTokens:
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: "you have 20 tokens for this thread already", Hint: "`/mcp gateway show` lists them, `/mcp gateway revoke ID` ends one"}
		case len(all) >= maxAll || all[id] != nil:
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: "there are too many tokens here", Hint: "revoke some, or ask the operator"}
		}
		all[id] = t
		return nil
	})
	if err != nil {
		return schemas.GatewayToken{}, "", err
	}
	return t.shown(), secret, nil
}

// Revoke ends a token of the caller, or of anybody in the thread for a manager, and what is under way with it.
func (g *Gateway) Revoke(ctx context.Context, c schemas.Caller, id string) error {
	missing := &schemas.Error{Code: schemas.CodeNotFound, Text: "you have no such token here", Hint: "`/mcp gateway show` lists them"}
	err := g.tokens.change(ctx, func(all map[string]*token) error {
		t := all[id]
		if t == nil || t.Thread != c.Thread || t.Member != c.Member && !c.Manages() {
			return missing
		}
		delete(all, id)
		return nil
	})
	if err == nil {
		g.end(func(who *identity) bool { return who.token == id })
	}
	return err
}

// List gives the caller's tokens for their thread, newest first; a manager gets everybody's.
func (g *Gateway) List(ctx context.Context, c schemas.Caller) ([]schemas.GatewayToken, error) {
	var list []schemas.GatewayToken
	err := g.tokens.look(ctx, true, func(all map[string]*token) {
		for _, t := range all {
			if t.Thread == c.Thread && (t.Member == c.Member || c.Manages()) {
				list = append(list, t.shown())
			}
		}
	})
	slices.SortFunc(list, func(a, b schemas.GatewayToken) int { return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.ID, b.ID)) })
	return list, err
}

// Left ends the tokens of a member who left a thread; of everybody in it with an empty one.
func (g *Gateway) Left(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) error {
	gone := func(th schemas.ThreadID, m schemas.MemberID) bool {
		return th == thread && (member == "" || m == member)
	}
	has := false
	err := g.tokens.look(ctx, true, func(all map[string]*token) {
		for _, t := range all {
			has = has || gone(t.Thread, t.Member)
		}
	})
	if err != nil || !has {
		return err
	}
	err = g.tokens.change(ctx, func(all map[string]*token) error {
		for id, t := range all {
			if gone(t.Thread, t.Member) {
				delete(all, id)
			}
		}
		return nil
	})
	g.end(func(who *identity) bool { return gone(who.caller.Thread, who.caller.Member) })
	return err
}

var (
	errToken = errors.New("no such token")
	errGuest = errors.New("the token's member is a guest")
)

// opens says whose the secret is, for a thread that it opens; compared by hashes, in constant time.
func (s *tokens) opens(ctx context.Context, thread schemas.ThreadID, secret string) (token, error) {
	if len(secret) <= 2*maxSecret && strings.HasPrefix(secret, ticketHead) {
		return s.admits(ctx, thread, secret)
	}
	rest, ok := strings.CutPrefix(secret, secretHead)
	id, _, whole := strings.Cut(rest, "_")
	if !ok || !whole || len(secret) > maxSecret {
		return token{}, errToken
	}
	var found token
	for _, again := range []bool{false, true} { // a token may have been made by another process just now
		err := s.look(ctx, again, func(all map[string]*token) {
			if t := all[id]; t != nil {
				found = *t
			}
		})
		if err != nil {
			return token{}, err
		}
		if found.ID != "" {
			break
		}
	}
	sum, hash := sha256.Sum256([]byte(secret)), [2 * sha256.Size]byte{}
	hex.Encode(hash[:], sum[:])
	same := subtle.ConstantTimeCompare(hash[:], []byte(found.Hash)) == 1
	now := s.now()
	if !same || found.Thread != thread || !found.shown().Holds(now) {
		return token{}, errToken
	}
	s.mu.Lock()
	if now.Sub(found.Used) > usedEvery && now.Sub(s.used[id]) > usedEvery {
		s.used[id] = now.UTC().Truncate(time.Second)
	}
	s.mu.Unlock()
	return found, nil
}

// look gives fn the tokens as they are, at most freshFor old; now reads them anew unless that was a moment ago.
func (s *tokens) look(ctx context.Context, now bool, fn func(map[string]*token)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := time.Since(s.read)
	if age > freshFor || now && age > freshFor/20 {
		if err := s.load(); err != nil {
			return err
		}
	}
	fn(s.all)
	return ctx.Err()
}

// load reads the file; the lock is held.
func (s *tokens) load() error {
	raw, err := s.dir.Read(tokenFile, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the gateway's tokens cannot be read", Err: err}
	}
	sum := durable.Sum(raw)
	if s.all != nil && sum == s.raw {
		s.read = time.Now()
		return nil
	}
	var k kept
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &k); err != nil {
			return &schemas.Error{Code: schemas.CodeInternal, Text: "the gateway's tokens cannot be read", Err: err}
		}
	}
	s.all, s.key, s.raw, s.read = map[string]*token{}, k.Key, sum, time.Now()
	for _, t := range k.Tokens {
		s.all[t.ID] = t
	}
	return nil
}

// change runs fn on the tokens and writes them, under the lock of all processes.
func (s *tokens) change(ctx context.Context, fn func(map[string]*token) error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := s.dir.Lock(ctx, tokenFile)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the gateway's tokens are in use by another bobbin", Err: err}
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return err
	}
	if s.key == nil {
		s.key = make([]byte, sha256.Size)
		_, _ = rand.Read(s.key) // never fails
	}
	next := make(map[string]*token, len(s.all)+1)
	for id, t := range s.all {
		c := *t
		if at, ok := s.used[id]; ok && at.After(c.Used) {
			c.Used = at
		}
		next[id] = &c
	}
	if err := fn(next); err != nil {
		return err
	}
	k := kept{Key: s.key}
	now := s.now()
	for id, t := range next {
		if !t.shown().Holds(now.Add(-30 * 24 * time.Hour)) {
			delete(next, id) // ran out a month ago
			continue
		}
		k.Tokens = append(k.Tokens, t)
	}
	slices.SortFunc(k.Tokens, func(a, b *token) int { return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID)) })
	raw, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = s.dir.Write(tokenFile, raw)
	}
	if err != nil {
		s.all, s.raw = nil, "" // what is on disk is not known
		s.read = time.Time{}
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the gateway's tokens cannot be written", Err: err}
	}
	s.all, s.raw, s.read = next, durable.Sum(raw), time.Now()
	clear(s.used)
	return nil
}

// note writes when tokens were last used.
func (s *tokens) note(ctx context.Context) error {
	s.mu.Lock()
	some := len(s.used) > 0
	s.mu.Unlock()
	if !some {
		return nil
	}
	return s.change(ctx, func(map[string]*token) error { return nil })
}

// signing gives the key for session ids, made if there is none.
func (s *tokens) signing(ctx context.Context) ([]byte, error) {
	var key []byte
	if err := s.look(ctx, false, func(map[string]*token) { key = s.key }); err != nil || key != nil {
		return key, err
	}
	if err := s.change(ctx, func(map[string]*token) error { return nil }); err != nil {
		return nil, err
	}
	err := s.look(ctx, false, func(map[string]*token) { key = s.key })
	return key, err
}
