package sandbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"time"

	"crypto/rand"

	"bobbin/schemas"
)

const (
	maxPut    = 64 << 20
	putTime   = 30 * time.Second // of one part
	putPiece  = 90 << 10         // in one argument: 128 KiB are the most that Linux takes
	putPieces = 6                // in one command: 1 MiB is the most that the program inside takes
)

// putScript gets the file under its temporary name and its own, which is "" until the last part, then pieces.
const putScript = `umask 022
new=$1 name=$2
shift 2
mkdir -p -- "${new%/*}" && for piece; do printf %s "$piece" | base64 -d >>"$new" || exit 1; done && : >>"$new" &&
if [ -n "$name" ]; then chmod 644 -- "$new" && mv -fT -- "$new" "$name"; fi || { rm -f -- "$new"; exit 1; }`

// Put writes one file in the member's sandbox, as the sandbox's own user, and so with no more power than the member has there:
// nothing of this machine follows links that were laid inside. name is relative to dir, which is under /workspace; folders between
// are made, and a file that stands there is replaced at once. The file may have 64 MiB. Errors are *schemas.Error.
func (d *Docker) Put(ctx context.Context, m schemas.MemberID, dir, name string, data []byte) error {
	dir, err := inWorkspace(dir)
	if err != nil {
		return err
	}
	if !fs.ValidPath(name) || name == "." {
		return refusal(schemas.CodeInvalid, fmt.Sprintf("%.80q is not a name for a file in the sandbox", name), "use a relative path without ..")
	}
	if len(data) > maxPut {
		return refusal(schemas.CodeTooLarge, "the file is too large for the sandbox", fmt.Sprintf("use %d MiB at most", maxPut>>20))
	}
	full := path.Join(dir, name)
	if l := (schemas.Launch{Owner: m, Command: full}); checkSize(l) != nil {
		return checkSize(l)
	}
	part := full + ".part-" + rand.Text()[:12]
	for last := false; !last; {
		n := min(len(data), putPiece*putPieces)
		last = n == len(data)
		if err := d.putPart(ctx, m, part, full, data[:n], last); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (d *Docker) putPart(ctx context.Context, m schemas.MemberID, part, full string, data []byte, last bool) error {
	c := command{Args: []string{"/bin/sh", "-c", putScript, "put", part, ""}, Dir: workspace, Env: map[string]string{"PATH": plainPath}, TimeoutMs: putTime.Milliseconds()}
	if last {
		c.Args[5] = full
	}
	for len(data) > 0 {
		n := min(len(data), putPiece)
		c.Args = append(c.Args, base64.StdEncoding.EncodeToString(data[:n]))
		data = data[n:]
	}
	done, err := d.run(ctx, schemas.Exec{Member: m}, c)
	if err == nil && done.Code != 0 {
		why := telling(clean(done.Stderr, nil))
		if done.TimedOut {
			why = "it took too long"
		}
		err = refusal(schemas.CodeFailed, fmt.Sprintf("%s could not be written in the sandbox: %s", full, why), "look at what is in the way there")
	}
	return err
}
