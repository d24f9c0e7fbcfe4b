package install

import "context"

func (in *Installer) git(ctx context.Context, j *job, r request, p *Plan) error {
	return failed("not yet")
}
