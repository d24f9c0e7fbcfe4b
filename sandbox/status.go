package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

// find lists the containers with a label, newest first; all also those that do not run.
func (d *Docker) find(ctx context.Context, label, value string, all bool) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	filters := client.Filters{}.Add("label", label+"="+value, labelInstance+"="+d.instance)
	found, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: all, Filters: filters})
	slices.SortFunc(found.Items, func(a, b container.Summary) int { return int(b.Created - a.Created) })
	return found.Items, err
}

// stop ends a container: SIGTERM, and after 10 s SIGKILL.
func (d *Docker) stop(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	_, err := d.engine.ContainerStop(ctx, id, client.ContainerStopOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// kill ends a container at once.
func (d *Docker) kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	now := 0
	_, err := d.engine.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &now})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// remove ends a container at once and removes it; its workspace stays.
func (d *Docker) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Stop stops a member's sandboxes; their containers and the workspace stay, and the next use starts them. Servers in them see the
// end of their streams.
func (d *Docker) Stop(ctx context.Context, m schemas.MemberID) error {
	const failed = "the sandbox could not be stopped"
	found, held, err := d.seize(ctx, m)
	defer held.release()
	if err != nil {
		return troubled(failed, err)
	}
	for _, c := range found {
		if c.State == container.StateRunning {
			err = errors.Join(err, d.stop(ctx, c.ID))
		}
	}
	return troubled(failed, err)
}

// Remove removes a member's sandboxes with the workspace and everything else that is kept of them.
func (d *Docker) Remove(ctx context.Context, m schemas.MemberID) error {
	const failed = "the sandbox could not be removed"
	found, held, err := d.seize(ctx, m)
	defer held.release()
	if err != nil {
		return troubled(failed, err)
	}
	boxes := map[string]bool{hash(d.instance, string(m)): true}
	for _, c := range found {
		boxes[c.Labels[labelBox]] = true
		err = errors.Join(err, d.remove(ctx, c.ID))
	}
	if err == nil {
		err = d.removeVolume(ctx, m)
	}
	for box := range boxes {
		if err != nil || len(box) != 32 || strings.Trim(box, "0123456789abcdef") != "" {
			continue // not a name of ours
		}
		err = d.opt.Boxes.RemoveAll(box)
	}
	if err == nil {
		held.forget()
	}
	return troubled(failed, err)
}

func (d *Docker) removeVolume(ctx context.Context, m schemas.MemberID) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	v, err := d.engine.VolumeInspect(ctx, volumeOf(m), client.VolumeInspectOptions{})
	if err == nil && v.Volume.Labels[labelInstance] == d.instance {
		_, err = d.engine.VolumeRemove(ctx, volumeOf(m), client.VolumeRemoveOptions{})
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.full, volumeOf(m))
	return nil
}

// seized are boxes that nobody starts until release.
type seized []*box

func (s seized) release() {
	for _, b := range s {
		b.unlock()
	}
}

func (s seized) forget() {
	for _, b := range s {
		b.forget()
	}
}

// seize lets go of a member's sandboxes and lists their containers.
func (d *Docker) seize(ctx context.Context, m schemas.MemberID) (found []container.Summary, held seized, err error) {
	if !m.Valid() {
		return nil, nil, refusal(schemas.CodeNotFound, "there is no such sandbox", "")
	}
	key := hash(d.instance, string(m))
	for _, b := range d.all() {
		if b.member != key {
			continue
		}
		if err := b.lock(ctx); err != nil {
			return nil, held, err
		}
		held = append(held, b)
		b.leave()
	}
	found, err = d.find(ctx, labelMember, key, true)
	return found, held, err
}

// troubled gives what the engine says words, if it says something.
func troubled(text string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e
	}
	return &schemas.Error{Code: schemas.CodeNotReady, Text: text, Hint: "try again; the operator looks at the container engine", Err: err}
}

// Status says how a member's sandbox is. What it says of locks is read from the container and the engine, not from what was asked
// for. With one container a server, it is that of the member's own commands, or the newest.
func (d *Docker) Status(ctx context.Context, m schemas.MemberID) (schemas.Box, error) {
	if !m.Valid() {
		return schemas.Box{}, refusal(schemas.CodeNotFound, "there is no such sandbox", "")
	}
	const failed = "the container engine does not say how the sandbox is"
	key := hash(d.instance, string(m))
	found, err := d.find(ctx, labelMember, key, true)
	if err != nil {
		return schemas.Box{}, troubled(failed, err)
	}
	s := schemas.Box{State: "none"}
	if len(found) == 0 {
		return s, nil
	}
	for _, b := range d.all() {
		if b.member == key {
			s.Servers += b.programs()
		}
	}
	chosen := max(0, slices.IndexFunc(found, func(c container.Summary) bool { return c.Labels[labelBox] == key }))
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	c, err := d.engine.ContainerInspect(ctx, found[chosen].ID, client.ContainerInspectOptions{})
	if err != nil {
		return schemas.Box{}, troubled(failed, err)
	}
	info, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return schemas.Box{}, troubled(failed, err)
	}
	s.ID, s.Image, s.State = c.Container.ID[:min(12, len(c.Container.ID))], d.opt.Image, "stopped"
	if state := c.Container.State; state != nil && state.Running {
		s.State = "running"
		s.Since, _ = time.Parse(time.RFC3339Nano, state.StartedAt)
	}
	s.Locks, s.Missing = locks(c.Container, info.Info, d.podman)
	if v, err := d.engine.VolumeInspect(ctx, volumeOf(m), client.VolumeInspectOptions{}); err == nil && v.Volume.Options[sizeOption] != "" {
		s.Locks = append(s.Locks, mebibytes(d.opt.Disk)+" of disk")
	} else {
		s.Missing = append(s.Missing, "the engine does not limit the disk: bobbin looks at it, and stops a sandbox above "+mebibytes(d.opt.Disk))
	}
	return s, nil
}

// Podman tells some of it otherwise than Docker: it names what "ALL" is, calls shared memory that nobody shares shareable, and every
// mount a bind, too. podmanCaps is how many capabilities Podman gives by default, at least.
const podmanCaps = 11

// locks reads what holds a container in, and what does not.
func locks(c container.InspectResponse, e system.Info, podman bool) (hold, missing []string) {
	h := c.HostConfig
	if h == nil || c.Config == nil {
		return nil, []string{"the container engine says nothing about the locks"}
	}
	lock := func(holds bool, yes, no string) {
		if holds {
			hold = append(hold, yes)
		} else {
			missing = append(missing, no)
		}
	}
	option := func(list []string, part string) bool {
		return slices.ContainsFunc(list, func(o string) bool { return strings.Contains(o, part) })
	}
	dropped := slices.Contains(h.CapDrop, "ALL") || podman && len(h.CapDrop) >= podmanCaps
	lock(dropped && len(h.CapAdd) == 0 && !h.Privileged, "all capabilities are dropped", "it has capabilities")
	lock(option(h.SecurityOpt, "no-new-privileges"), "no new privileges", "programs may gain privileges")
	lock(c.Config.User == boxUser, "not root", "it runs as another user than it should")
	lock(option(e.SecurityOptions, "seccomp") && !option(h.SecurityOpt, "unconfined"), "system calls are filtered", "system calls are not filtered: the engine has no seccomp")
	lock(h.ReadonlyRootfs, "the system is read-only", "the system can be written to")
	lock(h.NetworkMode.IsNone(), "no network of its own", "it has a network")
	own := func(mode string) bool { return mode == "" || podman && mode == "private" }
	lock(own(string(h.PidMode)) && (h.IpcMode.IsPrivate() || podman && h.IpcMode.IsShareable()) && own(string(h.UTSMode)), "own processes and shared memory", "it shares processes or memory with others")
	lock(ownMountsOnly(c) && (podman || len(h.Binds) == 0) && len(h.Devices) == 0 && len(h.DeviceRequests) == 0, "no folders and devices of this machine", "it has folders or devices of this machine")
	lock(e.CPUCfsQuota && h.NanoCPUs > 0, fmt.Sprintf("%g processor", float64(h.NanoCPUs)/1e9), "the processor is not limited: the engine cannot")
	lock(e.MemoryLimit && h.Memory > 0 && h.MemorySwap == h.Memory, fmt.Sprintf("%d MiB of memory", h.Memory>>20), "the memory is not limited: the engine cannot")
	limited := e.PidsLimit && h.PidsLimit != nil && *h.PidsLimit > 0
	most := int64(0)
	if limited {
		most = *h.PidsLimit
	}
	lock(limited, fmt.Sprintf("%d processes", most), "the number of processes is not limited: the engine cannot")
	return hold, missing
}

// ownMountsOnly reports whether a container mounts nothing but what every sandbox does.
func ownMountsOnly(c container.InspectResponse) bool {
	for _, m := range c.Mounts {
		switch m.Destination {
		case workspace, socketsPath:
		case program, authorities:
			if m.RW {
				return false
			}
		default:
			return false
		}
	}
	return true
}
