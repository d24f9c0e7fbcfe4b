package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const pinFile = "image.json"

// pin is which image a server runs, whatever its name means to the engine by now: only an upgrade changes it.
type pin struct {
	Name     string    `json:"name"` // as mcps.yaml has it
	ID       string    `json:"id"`
	Previous string    `json:"previous,omitempty"` // before the last upgrade
	At       time.Time `json:"at"`
}

// Image is one version of a server's image.
type Image struct {
	ID      string `json:"id"`
	Version string `json:"version,omitempty"` // as the image says: org.opencontainers.image.version
	Created string `json:"created,omitempty"`
}

// Upgrade is what an upgrade would change.
type Upgrade struct {
	Server string `json:"server"`
	Image  string `json:"image"`
	Old    Image  `json:"old"`
	New    Image  `json:"new"` // the same as Old: there is nothing newer
	Note   string `json:"note,omitempty"`
}

func (o *Operator) pinned(name string) (p pin) {
	if !o.servers.Has(name) {
		return p
	}
	dir, err := o.servers.Sub(name)
	if err != nil {
		return p
	}
	defer dir.Close()
	if text, err := dir.Read(pinFile, 64<<10); err != nil || json.Unmarshal(text, &p) != nil {
		return pin{}
	}
	return p
}

func (o *Operator) keepPin(name string, p pin) error {
	dir, err := o.servers.Sub(name)
	if err == nil {
		defer dir.Close()
		p.At = o.opt.Now().UTC()
		err = writeJSON(dir, pinFile, p)
	}
	return failed("which image "+name+" runs cannot be written down", err)
}

// base gives the image that a server runs: the pinned one while it is here, else what its name means now.
func (r *run) base(ctx context.Context) (image.InspectResponse, error) {
	s := r.server
	engine, err := r.o.docker(ctx)
	if err != nil {
		return image.InspectResponse{}, err
	}
	p := r.o.pinned(s.Name)
	if p.Name == s.BaseImage {
		found, err := engine.ImageInspect(ctx, p.ID)
		if err == nil {
			return found.InspectResponse, nil
		}
		if !errdefs.IsNotFound(err) {
			return image.InspectResponse{}, failed("the image "+s.BaseImage+" cannot be looked at", err)
		}
	}
	found, err := r.image(ctx, s.BaseImage)
	if err != nil || found.ID == p.ID {
		return found, err
	}
	return found, r.o.keepPin(s.Name, pin{Name: s.BaseImage, ID: found.ID})
}

// Newer asks the registry for a newer version of a server's image, and changes nothing but the engine's store of images. Where there
// is no registry, it is what the image's name means here.
func (o *Operator) Newer(ctx context.Context, name string, tell func(step string)) (u Upgrade, err error) {
	s, f, err := o.usable(ctx, name)
	if err != nil {
		return u, err
	}
	if s.Type == Remote {
		return u, &schemas.Error{Code: schemas.CodeInvalid, Text: name + " is remote: who runs it upgrades it"}
	}
	engine, err := o.docker(ctx)
	if err != nil {
		return u, err
	}
	u = Upgrade{Server: name, Image: s.BaseImage}
	r := &run{o: o, server: s, prefix: names(f.Prefix), tell: tell}
	old, err := r.base(ctx)
	if err != nil {
		return u, err
	}
	u.Old = version(old)
	tell(statePulling)
	long, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	pull, err := engine.ImagePull(long, s.BaseImage, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(long)
		_ = pull.Close()
	}
	if err != nil {
		u.Note = "the registry was not asked: " + says(err)
	}
	now, err := engine.ImageInspect(ctx, s.BaseImage)
	if errdefs.IsNotFound(err) {
		u.New = u.Old
		return u, nil
	}
	if err != nil {
		return u, failed("the image "+s.BaseImage+" cannot be looked at", err)
	}
	u.New = version(now.InspectResponse)
	return u, nil
}

func version(i image.InspectResponse) Image {
	v := Image{ID: i.ID, Created: i.Created}
	if i.Config != nil {
		v.Version = schemas.Clean(i.Config.Labels["org.opencontainers.image.version"], true)
	}
	return v
}

// Apply runs the newer version that Newer found; the older one is kept for Rollback.
func (o *Operator) Apply(ctx context.Context, u Upgrade, tell func(step string)) (Status, error) {
	return o.exchange(ctx, u.Server, pin{Name: u.Image, ID: u.New.ID, Previous: u.Old.ID}, tell)
}

// Rollback runs the version before the last upgrade again; done twice, it is back.
func (o *Operator) Rollback(ctx context.Context, name string, tell func(step string)) (Status, error) {
	s, _, err := o.usable(ctx, name)
	if err != nil {
		return Status{}, err
	}
	p := o.pinned(name)
	if p.Previous == "" || p.Name != s.BaseImage {
		return Status{}, &schemas.Error{Code: schemas.CodeNotFound, Text: name + " has no earlier version here", Hint: "there is one after an upgrade"}
	}
	return o.exchange(ctx, name, pin{Name: p.Name, ID: p.Previous, Previous: p.ID}, tell)
}

// exchange runs another version; if that does not work, the one that ran before runs again.
func (o *Operator) exchange(ctx context.Context, name string, to pin, tell func(step string)) (Status, error) {
	before := o.pinned(name)
	if err := o.keepPin(name, to); err != nil {
		return Status{}, err
	}
	st, err := o.Restart(ctx, name, tell)
	if err == nil {
		return st, nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTime+registerTime)
	defer cancel()
	e := explained(name, err)
	again := "; the version before runs again"
	if err := o.keepPin(name, before); err != nil {
		return Status{}, err
	}
	if _, err := o.Restart(back, name, tell); err != nil {
		again = "; the version before does not start either"
	}
	return Status{}, ending(e, again)
}
