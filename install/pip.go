package install

import "context"

func (in *Installer) pip(ctx context.Context, j *job, r request, p *Plan) error {
	return failed("not yet")
}
