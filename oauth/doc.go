// Package oauth is how members sign in to connectors: finding a server's authorization server, registering as its client, links
// of one use whose end is bound to the member who asked, and tokens that are kept sealed, refreshed once, and revoked.
//
// It follows the authorization chapter of the MCP specification (2025-11-25 and 2026-07-28) on top of golang.org/x/oauth2, which
// builds and reads the requests of RFC 6749, 7636 and 8628. Nothing in it waits for a person: a request without a sign-in fails at
// once with CodeNeeds, a link is given to the member, and the browser comes back to Handler at its own time.
package oauth
