// Package vault keeps secrets sealed at rest: data/vault/<member>.json, one file a member, names readable, values not.
//
// Each value is sealed with AES-256-GCM under a random nonce and a key of its member's own, derived from the master key
// with HKDF-SHA-256 (RFC 5869). Member, thread, server, name and origin are authenticated with it (RFC 5116, associated
// data): a sealed value that is copied to another place does not open there.
//
// The master key is the systemd credential bobbin-vault-key ($CREDENTIALS_DIRECTORY), else the file key beside the values,
// made with the first use. Who can read the file can read the values: what it protects is backups and copies of the other
// files, and a stolen disk if the key comes as a credential. With a missing or wrong key the vault is locked: it says so,
// and changes nothing.
//
// A value may also be held in memory alone, which writes nothing and ends with the process.
package vault
