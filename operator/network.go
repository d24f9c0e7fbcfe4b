package operator

import (
	"cmp"
	"context"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

// An engine makes a network although its bobbin was killed meanwhile, and some make a second one of the same name, after which they
// call the name ambiguous. So networks are found by name and labels, and spoken of by id.

// named lists the networks of exactly this name, the oldest first.
func named(ctx context.Context, engine *client.Client, name string) ([]network.Summary, error) {
	r, err := engine.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).Add("name", name)}) // that have it somewhere
	if err != nil {
		return nil, failed("the network "+name+" cannot be looked at", err)
	}
	all := slices.DeleteFunc(r.Items, func(n network.Summary) bool { return n.Name != name })
	slices.SortFunc(all, func(a, b network.Summary) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// network gives the id of a network, which is made if it is not there. Of several one stays: the one with containers, else the
// oldest. Sharing one with another data folder takes its consent: shared.
func (o *Operator) network(ctx context.Context, name, role string, shared bool) (id string, err error) {
	engine, err := o.docker(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	unlock, err := o.state.Lock(ctx, "networks")
	if err != nil {
		return "", failed("the network "+name+" cannot be made", err)
	}
	defer unlock()
	for range 3 {
		all, err := named(ctx, engine, name)
		if err != nil {
			return "", err
		}
		foreign := slices.IndexFunc(all, func(n network.Summary) bool { return n.Labels[labelInstance] != o.instance })
		if !shared && foreign >= 0 {
			return "", &schemas.Error{Code: schemas.CodeConflict, Text: "the engine has a network " + name + " that is not of this data folder",
				Hint: "docker network rm " + all[foreign].ID[:min(12, len(all[foreign].ID))] + ", or set another prefix: in " + FileName}
		}
		if len(all) > 0 {
			return o.single(ctx, engine, all, shared)
		}
		_, err = engine.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge", Labels: map[string]string{labelInstance: o.instance, labelRole: role}})
		if err != nil && !errdefs.IsConflict(err) { // a conflict: another one has come up just now
			return "", failed("the network "+name+" cannot be made", err)
		}
	}
	return "", &schemas.Error{Code: schemas.CodeFailed, Text: "the engine does not show the network " + name + " that it says is made", Hint: "the engine's log tells more"}
}

// single removes all networks of a name but one, and gives its id: an engine does not remove one with containers. Of others than this
// data folder's it takes those of bobbins, if shared.
func (o *Operator) single(ctx context.Context, engine *client.Client, all []network.Summary, shared bool) (id string, err error) {
	name := all[0].Name
	for i := len(all) - 1; i >= 0 && len(all) > 1; i-- {
		if of := all[i].Labels[labelInstance]; of != o.instance && (of == "" || !shared) {
			continue
		}
		if _, err = engine.NetworkRemove(ctx, all[i].ID, client.NetworkRemoveOptions{}); err == nil || errdefs.IsNotFound(err) {
			o.opt.Log.Info("a second network of the same name is removed", "network", name, "id", all[i].ID)
			all = slices.Delete(all, i, i+1)
		}
	}
	if len(all) > 1 {
		return "", &schemas.Error{Code: schemas.CodeConflict, Text: "the engine has several networks " + name + ", and more than one is in use or not of this data folder",
			Hint: "docker network ls shows them, docker network inspect ID what is on each; docker network rm takes the id, too", Err: err}
	}
	return all[0].ID, nil
}

// untwin removes the twins of a container's networks, and reports whether there were any.
func (o *Operator) untwin(ctx context.Context, container string) (found bool) {
	engine, err := o.docker(ctx)
	if err != nil {
		return false
	}
	unlock, err := o.state.Lock(ctx, "networks")
	if err != nil {
		return false
	}
	defer unlock()
	c, ok, err := o.inspect(ctx, container)
	if err != nil || !ok || c.NetworkSettings == nil {
		return false
	}
	for name := range c.NetworkSettings.Networks {
		if all, err := named(ctx, engine, name); err == nil && len(all) > 1 {
			_, err = o.single(ctx, engine, all, false)
			found = found || err == nil
		}
	}
	return found
}

// forsake removes a network that nothing uses any more; one in use stays.
func (o *Operator) forsake(ctx context.Context, name string) {
	engine, err := o.docker(ctx)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	all, err := named(ctx, engine, name)
	if err != nil {
		o.opt.Log.Debug("a network stays", "network", name, "err", err)
	}
	for _, n := range all {
		if n.Labels[labelInstance] != o.instance {
			continue
		}
		if _, err := engine.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
			o.opt.Log.Debug("a network stays", "network", name, "err", err)
		}
	}
}

// join puts a container on one more network of this data folder; being there already is no error.
func (o *Operator) join(ctx context.Context, name, container string, as *network.EndpointSettings) error {
	id, err := o.network(ctx, name, roleServer, false)
	if err != nil {
		return err
	}
	engine, err := o.docker(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	_, err = engine.NetworkConnect(ctx, id, client.NetworkConnectOptions{Container: container, EndpointConfig: as})
	if err != nil { // engines differ in how they say that it is there
		if c, ok, _ := o.inspect(ctx, container); ok && c.NetworkSettings != nil && c.NetworkSettings.Networks[name] != nil {
			return nil
		}
	}
	return failed("the container cannot be put on the network "+name, err)
}
