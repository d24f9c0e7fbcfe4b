package oauth

import (
	"context"
	"errors"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"bobbin/schemas"
)

// beginDevice asks for the code that is typed on another device (RFC 8628, section 3.1).
func (s *SignIns) beginDevice(ctx context.Context, f *flow, l *schemas.Link) error {
	m := f.place.meta
	if !m.offersDevice {
		return &schemas.Error{Code: schemas.CodeMissing, Text: hostOf(m.Issuer) + " knows no sign-in on another device", Hint: "use the link in a browser on this machine"}
	}
	conf := oauth2.Config{ClientID: f.client.ID, Scopes: f.scopes, Endpoint: oauth2.Endpoint{DeviceAuthURL: m.Device}}
	opts := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", f.place.resource)}
	if f.client.Method == "client_secret_post" {
		opts = append(opts, oauth2.SetAuthURLParam("client_secret", f.client.Secret))
	}
	d, err := conf.DeviceAuth(s.through(ctx, f.Caller.Thread), opts...)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeFailed, Text: hostOf(m.Issuer) + " did not begin the sign-in", Hint: "use the link in a browser on this machine", Err: plain(err)}
	}
	if _, err := s.check(f.Caller.Thread, d.VerificationURI); err != nil || d.DeviceCode == "" || d.UserCode == "" || len(d.UserCode) > 64 {
		return wrongMetadata("the authorization server sends you to an address that may not be used", err)
	}
	f.device, l.URL, l.Code = d, d.VerificationURI, schemas.Clean(d.UserCode, true)
	if !d.Expiry.IsZero() && d.Expiry.Before(f.expires) {
		f.expires, l.Expires = d.Expiry, d.Expiry
	}
	return nil
}

// pollDevice asks once whether the member agreed on the other device (RFC 8628, section 3.4); oftener than the server allows, it
// says "not yet" by itself.
func (s *SignIns) pollDevice(ctx context.Context, f *flow) error {
	notYet := &schemas.Error{Code: schemas.CodeNeeds, Text: "the sign-in is not done on the other device yet", Hint: "open " + f.device.VerificationURI + ", type the code, then come back"}
	s.mu.Lock()
	pause := time.Duration(max(f.device.Interval, 5)) * time.Second
	early := s.opt.Now().Before(f.polled.Add(pause))
	if !early {
		f.polled = s.opt.Now()
	}
	s.mu.Unlock()
	if early {
		return notYet
	}
	v := url.Values{"grant_type": {deviceGrant}, "device_code": {f.device.DeviceCode}, "resource": {f.place.resource}}
	tok, err := s.token(ctx, f.Caller.Thread, f.client, f.place.meta.Token, v)
	if err == nil && !plainToken(tok) {
		err = errors.New("the answer holds no bearer token")
	}
	said, refused := errors.AsType[*oauth2.RetrieveError](err)
	if err == nil {
		f.grant = f.got(tok, s.opt.Now())
		if err := s.store(ctx, f); err != nil { // the code on the device is spent
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.flows, f.id)
			s.giveUp(f)
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		delete(s.flows, f.id)
		return nil
	case refused && said.ErrorCode == "authorization_pending":
		return notYet
	case refused && said.ErrorCode == "slow_down":
		f.device.Interval = max(f.device.Interval, 5) + 5
		return notYet
	case !refused:
		return unreachable(hostOf(f.place.meta.Token), plain(err))
	}
	delete(s.flows, f.id)
	if said.ErrorCode == "expired_token" {
		return expired("the code was not typed in time")
	}
	return &schemas.Error{Code: schemas.CodeDenied, Text: "the sign-in was refused at " + hostOf(f.place.meta.Issuer), Hint: "`/mcp connect` begins a new one", Err: plain(err)}
}
