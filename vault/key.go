package vault

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bobbin/schemas"
)

const (
	keyName    = "key"
	checkName  = "key.check"
	credential = "bobbin-vault-key"
	keySize    = 32
	smallFile  = 4 << 10
	label      = "bobbin vault 1 " // of everything that is derived or sealed
)

// keyCheck tells a wrong key without opening a value.
type keyCheck struct {
	Version int    `json:"version"`
	Check   string `json:"check"`
}

// unlock finds or makes the master key, once. A key that cannot be right locks the vault, for good; only a folder that
// cannot be used is an error. Two processes that start together end with one key: it is made under a lock.
func (v *Vault) unlock(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.key != nil || v.locked != nil {
		return nil
	}
	release, err := v.dir.Lock(ctx, keyName)
	if err != nil {
		return err
	}
	defer release()
	return v.findKey(true)
}

// findKey reads the note about the key, the names of the files, the key, in this order: they are written in the opposite
// one, so that a vault that is just being made does not look as if its key were gone. Without settle, which needs the
// lock, it writes nothing and leaves a new vault undecided.
func (v *Vault) findKey(settle bool) error {
	check, err := v.readCheck()
	switch {
	case err != nil:
		v.lock("the note about its key ("+checkName+") cannot be read", err)
		return nil
	case check.Version > version:
		v.lock("a newer bobbin made it", nil)
		return nil
	}
	members, err := v.members()
	if err != nil {
		return err
	}
	key, err := v.readKey()
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		v.lock("its key cannot be read", err)
		return nil
	case check.Check != "" || len(members) > 0:
		v.lock("its key is gone", err)
		return nil
	case !settle:
		return nil
	default:
		if key, err = v.makeKey(); err != nil {
			return err
		}
	}
	if check.Check == "" {
		return v.settle(key, members, settle)
	}
	if subtle.ConstantTimeCompare([]byte(checkOf(key)), []byte(check.Check)) != 1 {
		v.lock("its key is not the one that its values were sealed with", nil)
		return nil
	}
	v.key = key
	return nil
}

// settle takes a key that there is no note about, and writes the note.
func (v *Vault) settle(key []byte, members []schemas.MemberID, write bool) error {
	if !v.opensAny(key, members) {
		v.lock("its key is not the one that its values were sealed with", nil)
		return nil
	}
	if !write {
		return nil
	}
	data, err := json.Marshal(keyCheck{version, checkOf(key)})
	if err != nil {
		return err
	}
	if err := v.dir.Write(checkName, append(data, '\n')); err != nil {
		return err
	}
	v.key = key
	return nil
}

func checkOf(key []byte) string { return hex.EncodeToString(derive(key, "key check")) }

func (v *Vault) lock(why string, err error) {
	v.locked = &schemas.Error{
		Code: schemas.CodeUnreadable, Text: "the vault is locked: " + why,
		Hint: "the operator puts the key back (" + filepath.Join(filepath.Base(v.dir.Path()), keyName) + ", or the credential " + credential + ") and starts bobbin again", Err: err,
	}
}

func (v *Vault) readCheck() (c keyCheck, err error) {
	data, err := v.dir.Read(checkName, smallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return keyCheck{}, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, err
	}
	if c.Version < 1 || c.Check == "" {
		return c, errors.New("vault: incomplete key check")
	}
	return c, nil
}

// readKey wraps fs.ErrNotExist when there is none. A credential that is there but unusable is not passed over.
func (v *Vault) readKey() ([]byte, error) {
	if folder := os.Getenv("CREDENTIALS_DIRECTORY"); folder != "" {
		data, err := readSmall(filepath.Join(folder, credential))
		if err == nil {
			return parseKey(data)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	data, err := v.dir.Read(keyName, smallFile)
	if err != nil {
		return nil, err
	}
	return parseKey(data)
}

// readSmall follows links: credentials of Kubernetes are links.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, smallFile))
}

func parseKey(data []byte) ([]byte, error) {
	if len(data) == keySize {
		return data, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("vault: a key is %d bytes in base64", keySize)
	}
	return key, nil
}

func (v *Vault) makeKey() ([]byte, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails, see crypto/rand
	return key, v.dir.Write(keyName, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
}

// opensAny reports whether the key opens a value, or there is none.
func (v *Vault) opensAny(key []byte, members []schemas.MemberID) bool {
	any := false
	for _, m := range members {
		s, err := v.read(m)
		if err != nil {
			continue
		}
		for _, e := range s.entries {
			any = true
			if _, err := open(key, e.key(m), e.Nonce, e.Sealed); err == nil {
				return true
			}
		}
	}
	return !any
}

func derive(key []byte, info string) []byte {
	k, err := hkdf.Key(sha256.New, key, nil, label+info, keySize)
	if err != nil {
		panic("vault: " + err.Error()) // only for lengths that are constants here
	}
	return k
}

func aead(key []byte, m schemas.MemberID) (cipher.AEAD, error) {
	block, err := aes.NewCipher(derive(key, "member "+string(m)))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// place is the associated data: every part with its length in front, so that no two places give the same bytes.
func place(k schemas.SecretKey) []byte {
	b := []byte(label)
	for _, part := range []string{string(k.Member), string(k.Thread), k.Server, k.Name, k.Origin} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return b
}

func seal(key []byte, k schemas.SecretKey, value []byte) (nonce, sealed []byte, err error) {
	a, err := aead(key, k.Member)
	if err != nil {
		return nil, nil, err
	}
	nonce = make([]byte, a.NonceSize())
	_, _ = rand.Read(nonce)
	return nonce, a.Seal(nil, nonce, value, place(k)), nil
}

func open(key []byte, k schemas.SecretKey, nonce, sealed []byte) ([]byte, error) {
	a, err := aead(key, k.Member)
	if err != nil {
		return nil, err
	}
	if len(nonce) != a.NonceSize() {
		return nil, errors.New("vault: damaged nonce")
	}
	return a.Open(nil, nonce, sealed, place(k))
}
