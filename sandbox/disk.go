package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const (
	diskLimit   = 2 << 30 // bytes of a workspace
	diskMost    = 4       // times the limit: a sandbox with more does not start
	diskReserve = 1 << 30 // bytes that stay free for the machine
	diskLook    = 2 * time.Second
	diskShare   = 20 // looking takes one part in that of the time, at most
	mostFiles   = 500_000
	sizeOption  = "size" // of a volume, where the engine's file system has project quotas
)

var errTooManyFiles = errors.New("sandbox: there are too many files")

// disk is the workspace of a running sandbox that the engine does not limit.
type disk struct {
	path    string       // on this machine, where we may look; not everybody may
	allowed atomic.Int64 // bytes; more than the limit for one that was over it when it started, so that its member can make room
	looked  atomic.Bool
}

// watch stops sandboxes that fill the disk.
func (d *Docker) watch() {
	for pause := diskLook; ; {
		select {
		case <-d.life.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		d.lookAtDisks(d.life)
		pause = max(diskLook, diskShare*time.Since(began))
	}
}

func (d *Docker) lookAtDisks(ctx context.Context) {
	var engine map[string]int64 // asked for once, if at all: it looks at every volume that it has
	sizes := map[string]int64{}
	for _, b := range d.all() {
		at := b.disk.Load()
		if at == nil {
			continue
		}
		if left, err := freeSpace(at.path, d.root); err == nil && left < d.reserve.Load() {
			d.opt.Log.Error("the disk of the container engine is nearly full: its sandboxes are stopped", "free", left)
			b.stopFull(ctx, "the disk of this machine is nearly full")
			continue
		}
		size, known := sizes[b.volume]
		if !known {
			var err error
			if size, err = measure(ctx, at.path, diskMost*d.opt.Disk); errors.Is(err, errTooManyFiles) {
				b.stopFull(ctx, fmt.Sprintf("it has more than %d files", mostFiles))
				continue
			}
			if err != nil {
				if engine == nil {
					engine = d.volumeSizes(ctx)
				}
				size = engine[b.volume]
			}
			sizes[b.volume] = size
		}
		d.judge(ctx, b, at, size)
	}
}

func (d *Docker) judge(ctx context.Context, b *box, at *disk, size int64) {
	most := diskMost * d.opt.Disk
	if !at.looked.Swap(true) {
		at.allowed.Store(max(d.opt.Disk, size))
	}
	if size <= at.allowed.Load() && size < most {
		return
	}
	d.mu.Lock()
	d.full[b.volume] = size >= most
	d.mu.Unlock()
	b.stopFull(ctx, "its files take more than "+mebibytes(d.opt.Disk))
}

// volumeSizes asks the engine. One that does not say knows no sizes: [Docker.Status] says what it cannot do.
func (d *Docker) volumeSizes(ctx context.Context) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	sizes := map[string]int64{}
	usage, err := d.engine.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
	if err != nil && ctx.Err() == nil {
		d.opt.Log.Warn("the container engine does not say how large workspaces are", "err", err)
	}
	for _, v := range usage.Volumes.Items {
		if v.UsageData != nil {
			sizes[v.Name] = v.UsageData.Size
		}
	}
	return sizes
}

// stopFull ends a sandbox at once: one that is asked to end has time to write.
func (b *box) stopFull(ctx context.Context, why string) {
	waiting, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if b.lock(waiting) != nil {
		return
	}
	defer b.unlock()
	if b.in == nil {
		return
	}
	b.why.Store(&why)
	b.leave()
	err := b.d.kill(ctx, b.id)
	b.d.opt.Log.Warn("a sandbox was stopped", "box", b.box, "why", why, "err", err)
}

// ensureVolume makes the workspace, limited if the engine can, and says where it is.
func (b *box) ensureVolume(ctx context.Context) error {
	how := client.VolumeCreateOptions{
		Name: b.volume, Labels: map[string]string{labelInstance: b.instance, labelMember: b.member},
	}
	if !b.d.podman { // which takes the option, and then cannot mount the volume
		how.DriverOpts = map[string]string{sizeOption: fmt.Sprint(b.d.opt.Disk)}
	}
	v, err := b.d.engine.VolumeCreate(ctx, how)
	if err != nil && how.DriverOpts != nil && !client.IsErrConnectionFailed(err) && ctx.Err() == nil {
		how.DriverOpts = nil
		v, err = b.d.engine.VolumeCreate(ctx, how)
	}
	if err != nil {
		return err
	}
	if v.Volume.Labels[labelInstance] != b.instance {
		return refusal(schemas.CodeConflict, "the volume "+b.volume+" belongs to another data folder of bobbin at the same engine",
			"if that folder is gone, the operator removes the volume: docker volume rm "+b.volume+"; else this bobbin needs an engine of its own")
	}
	b.limited, b.path = v.Volume.Options[sizeOption] != "", v.Volume.Mountpoint
	return b.d.refuseFull(ctx, b.volume, b.path)
}

// refuseFull keeps a sandbox from a start that had far too much, until it can be seen that somebody has made room.
func (d *Docker) refuseFull(ctx context.Context, volume, path string) error {
	d.mu.Lock()
	full := d.full[volume]
	d.mu.Unlock()
	if !full {
		return nil
	}
	most := diskMost * d.opt.Disk
	if size, err := measure(ctx, path, most); err != nil || size >= most {
		return refusal(schemas.CodeDenied, fmt.Sprintf("the files in the sandbox take more than %s, %d times what they may", mebibytes(most), diskMost),
			"remove it with all that is in it, or have the operator make room in the volume "+volume)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.full, volume)
	return nil
}

// guard begins to watch the disk of one that starts.
func (b *box) guard() {
	b.why.Store(nil)
	if !b.limited {
		b.disk.Store(&disk{path: b.path})
	}
}

// ended says why the sandbox does not run, as far as we know.
func (b *box) ended() string {
	if why := b.why.Load(); why != nil {
		return "was stopped: " + *why
	}
	return "was stopped"
}

func mebibytes(n int64) string {
	if n%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
