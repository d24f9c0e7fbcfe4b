package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bobbin/audit"
	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/operator"
	"bobbin/schemas"
	"bobbin/vault"
)

const (
	littleSpace = 1 << 30   // bytes: worth a word
	noSpace     = 100 << 20 // soon nothing can be written
	mostWalked  = 20_000    // files whose owner is looked at
	mostSkew    = 2 * time.Minute
)

// data looks at the folder itself, and reports whether there is anything in it to look at.
func (d *doctor) data(context.Context) bool {
	path, err := filepath.Abs(d.m.Data)
	if err != nil {
		d.fault(problem, "data", "name another folder with --data", err)
		return false
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.say(warning, "data", "bobbin makes it at its first start; if there should be one, name it with --data or BOBBIN_DATA", "%s is not there yet", path)
		return false
	case errors.Is(err, fs.ErrPermission):
		d.say(problem, "data", "run this as the user who runs bobbin", "%s cannot be looked at", path)
		return false
	case err != nil:
		d.fault(problem, "data", "name another folder with --data", err)
		return false
	case !info.IsDir():
		d.say(problem, "data", "name a folder with --data", "%s is a file", path)
		return false
	}
	whole := d.owned(path, info)
	d.room(path)
	return whole
}

// owned looks at who may use the folder and what is in it.
func (d *doctor) owned(path string, info fs.FileInfo) bool {
	if who, mine := ownedByMe(info); !mine {
		d.say(problem, "data", "chown -R "+me()+" "+path+", or run this as that user", "%s belongs to %s, and this runs as %s", path, who, me())
		return false
	}
	if mode := info.Mode().Perm(); enforced && mode&0o077 != 0 {
		d.say(warning, "data", "chmod 700 "+path, "others on this machine may enter %s (mode %04o)", path, mode)
	}
	probe, err := os.CreateTemp(path, ".bobbin-doctor-*")
	if err != nil {
		d.say(problem, "data", "look at the permissions of the folder, and whether its file system is mounted read-only", "%s cannot be written", path)
		return false
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	walked, wrong, first, late := 0, 0, "", false
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if walked++; walked > mostWalked {
			return fs.SkipAll
		}
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
			return nil
		}
		mine := err == nil
		if mine {
			_, mine = ownedByMe(info)
			late = late || info.ModTime().After(d.now().Add(mostSkew))
		}
		inside := strings.Contains(filepath.ToSlash(p), "/boxes/") || strings.Contains(filepath.ToSlash(p), "/work/") || strings.Contains(filepath.ToSlash(p), "/operator/") // programs write there, too
		if !mine && !inside {
			if wrong++; wrong == 1 {
				first = p
			}
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	if wrong > 0 {
		d.say(problem, "data", "chown -R "+me()+" "+path, "%s not yours, or cannot be read, such as %s", several(wrong, "file"), first)
	} else {
		d.ok("data", "%s, owned by %s", path, me())
	}
	if late {
		d.say(warning, "clock", "timedatectl set-ntp true", "files were written in the future: the clock was, or is, wrong")
	}
	return true
}

// room looks at what is left, and at the file system.
func (d *doctor) room(path string) {
	free, kind := disk(path)
	if kind != "" {
		d.say(problem, "space", "move the data folder to a disk of this machine", "%s is on a network file system (%s), where locks are not reliable", path, kind)
	}
	switch {
	case free < 0:
	case free < noSpace:
		d.say(problem, "space", "make room: configurations, secrets and audit records will soon be refused", "only %s are free", size(free))
	case free < littleSpace:
		d.say(warning, "space", "make room", "%s are free", size(free))
	default:
		d.ok("space", "%s are free", size(free))
	}
}

// sub opens a folder of the data folder that is there; nil when it is not, for one that it would make.
func (d *doctor) sub(name string) *durable.Dir {
	data, err := durable.Open(d.m.Data)
	if err != nil {
		d.fault(problem, "data", "name another folder with --data", err)
		return nil
	}
	defer func() { _ = data.Close() }()
	if !data.Has(name) {
		return nil
	}
	dir, err := data.Sub(name)
	if err != nil {
		d.say(problem, "data", "look at what "+name+" is and who owns it", "%s cannot be used", filepath.Join(d.m.Data, name))
		return nil
	}
	return dir
}

func (d *doctor) vault() {
	path := filepath.Join(d.m.Data, "vault", "key")
	key, missing := os.Lstat(path) // before it is opened, which closes it to others
	dir := d.sub("vault")
	if dir == nil {
		d.ok("vault", "no secrets yet")
		return
	}
	defer func() { _ = dir.Close() }()
	v, err := vault.Open(dir)
	if err == nil {
		err = v.Locked()
	}
	if err != nil {
		d.fault(problem, "vault", "check who owns it", err)
		return
	}
	switch {
	case missing != nil && os.Getenv("CREDENTIALS_DIRECTORY") != "":
		d.ok("vault", "opens with systemd's credential")
	case missing != nil:
		d.ok("vault", "no key yet: it is made with the first secret")
	case enforced && key.Mode().Perm()&0o077 != 0:
		d.say(problem, "vault", "chmod 600 "+path+", and take the secrets for seen", "the key was open to others on this machine (mode %04o)", key.Mode().Perm())
	default:
		d.ok("vault", "opens; keep a copy of vault/key apart from the backup")
	}
}

// threads reads every thread's files and follows every audit log.
func (d *doctor) threads(ctx context.Context) {
	users := d.sub("users")
	if users == nil {
		d.ok("files", "no threads yet")
		return
	}
	defer func() { _ = users.Close() }()
	store, err := mcpstore.Open(users, mcpstore.Options{})
	if err != nil {
		d.fault(problem, "files", "check who owns the data folder", err)
		return
	}
	ids, err := store.Threads(ctx)
	if err != nil {
		d.fault(problem, "files", "check who owns the data folder", err)
		return
	}
	log, err := audit.Open(users, audit.Options{})
	if err != nil {
		d.fault(problem, "audit", "check who owns the data folder", err)
		return
	}
	servers, records, wrong, broken := 0, int64(0), 0, 0
	for _, id := range ids {
		cfg, err := store.Load(ctx, id)
		if err != nil {
			wrong++
			d.say(problem, "files", "look at who owns data/users/"+string(id), "%s: %s", id, inWords(err))
			continue
		}
		servers += len(cfg.Entries)
		for _, p := range cfg.Problems {
			wrong++
			d.say(problem, "files", "correct it in an editor; what was read before stays in force meanwhile", "%s: %s", id, p)
		}
		v, err := log.Verify(ctx, id)
		switch {
		case err != nil:
			broken++
			d.say(problem, "audit", "look at who owns data/users/"+string(id), "%s: %s", id, inWords(err))
		case !v.OK:
			broken++
			d.say(problem, "audit", "compare it with a backup; what is behind that line is not proven", "%s: the chain breaks at line %d: %s", id, v.Line, v.Why)
		}
		records += v.Records
	}
	if wrong == 0 {
		d.ok("files", "%s with %s can be read", several(len(ids), "thread"), several(servers, "server"))
	}
	if broken == 0 {
		d.ok("audit", "%s, every chain is whole", several(int(records), "record"))
	}
}

func inWords(err error) string {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e.Text
	}
	return schemas.Clean(err.Error(), true)
}

// operated reads mcps.yaml.
func (d *doctor) operated(ctx context.Context) {
	if _, err := os.Lstat(filepath.Join(d.m.Data, operator.FileName)); err != nil {
		return
	}
	o, err := d.m.operator()
	if err != nil {
		d.fault(problem, "mcps.yaml", "check who owns the data folder", err)
		return
	}
	defer func() { _ = o.Close() }()
	f, err := o.Load(ctx)
	if err != nil {
		d.fault(problem, "mcps.yaml", "correct it in an editor", err)
		return
	}
	bad := 0
	for _, s := range f.Servers {
		if s.Wrong != "" {
			bad++
			d.say(problem, "mcps.yaml", "correct it in an editor, or: bobbin mcp remove "+s.Name, "%s: %s", s.Name, s.Wrong)
		}
	}
	for _, p := range f.Problems {
		d.say(warning, "mcps.yaml", "correct it in an editor", "%s", p)
	}
	if bad == 0 {
		d.ok("mcps.yaml", "%s", several(len(f.Servers), "server"))
	}
}
