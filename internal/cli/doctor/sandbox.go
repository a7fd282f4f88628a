package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// sandbox checks whether this machine can confine programs to their folders. If it can't, that is
// an error where the sandbox is required, and nothing to warn of where it is off.
func (d *diagnosis) sandbox(ctx context.Context, p *app.Project, c *config.Config) {
	if d.invalidSettings && c.Sandbox == sandbox.Off {
		return
	}
	box := p.Agents(c).Box()
	found := sandbox.Detect(ctx, d.console.Env)
	err := error(nil)
	if found.OK() {
		err = box.Try(ctx, p.Root)
	}
	state, hint := stateWarning, found.Hint
	if c.Sandbox == sandbox.Require {
		state = stateError
	}
	switch {
	case !found.OK() && c.Sandbox == sandbox.Off:
		d.add(stateOK, "sandbox", "off; "+found.Why, found.Hint)
	case !found.OK():
		d.add(state, "sandbox", c.Sandbox+", but "+found.Why, hint)
	case err != nil && c.Sandbox != sandbox.Off:
		d.add(state, "sandbox", c.Sandbox+", but "+err.Error(), sandbox.Hint(err))
	case c.Sandbox == sandbox.Off:
		d.add(stateOK, "sandbox", fmt.Sprintf("off; %s works here", found), "")
	default:
		d.add(stateOK, "sandbox", fmt.Sprintf("%s: %s", c.Sandbox, found), "")
		if hooks := p.Repo.Hooks().Hooks(ctx); len(hooks) > 0 {
			d.add(stateOK, "sandbox", "outside of it git runs your hooks when Trellis commits and pushes: "+strings.Join(hooks, ", "), "what they call in the worktree an agent may have changed: docs/reference/sandbox.md")
		}
	}
	if c.Sandbox == sandbox.Off {
		return
	}
	if kinds := box.OfflineKinds(ctx); len(kinds) > 0 {
		d.add(stateOK, "sandbox", "no network for "+strings.Join(kinds, ", "), "for commands that need it: "+sandbox.NetworkHint(kinds[0])+"; docs/reference/sandbox.md")
	}
	if found.OK() {
		d.reachableHosts(p, c, box)
	}
	d.hiddenFromSandbox(box)
	d.missingPaths("sandbox_write", c.SandboxWrite)
	d.missingPaths("sandbox_home", c.SandboxHome)
}

// reachableHosts reports for each installed agent which hosts it reaches, if those are not all.
func (d *diagnosis) reachableHosts(p *app.Project, c *config.Config, box *sandbox.Box) {
	o := p.Agents(c).Options()
	var wide []string
	for _, role := range trellis.Roles {
		if !box.RestrictsNetwork(sandbox.Need{Kind: string(role)}) {
			wide = append(wide, string(role))
		}
	}
	if len(wide) == len(trellis.Roles) {
		return
	}
	for _, name := range agents.Programs() {
		if d.console.Caller().LookPath(name) == nil {
			d.add(stateOK, "sandbox", name+" reaches "+text.JoinFirst(o.Reaches(name), 8), "what else it needs: sandbox_hosts: [HOST] in .trellis/config.yaml; docs/reference/sandbox.md")
		}
	}
	if len(c.SandboxHosts) > 0 || len(c.Agents.Commands) > 0 {
		hosts := c.SandboxHosts
		if len(hosts) == 0 {
			hosts = []string{"nothing"}
		}
		d.add(stateOK, "sandbox", "all agents reach "+text.JoinFirst(hosts, 8), "what agents of your own need, their models too: sandbox_hosts: [HOST] in .trellis/config.yaml; docs/reference/sandbox.md")
	}
	if len(wide) > 0 {
		d.add(stateOK, "sandbox", "some agents have a wider network: "+strings.Join(wide, ", "), "sandbox_network and sandbox_offline in .trellis/config.yaml decide that")
	}
}

// hiddenFromSandbox reports which variables, accounts and files of the user are not visible in the sandbox, and how to show them.
func (d *diagnosis) hiddenFromSandbox(box *sandbox.Box) {
	if names := box.WithheldVariables(d.console.Caller().CommandEnv()); len(names) > 0 {
		d.add(stateOK, "sandbox", "commands do not get "+text.JoinFirst(names, 8)+" of your environment", "sandbox_env: [NAME] in .trellis/config.yaml hands one on; docs/reference/sandbox.md")
	}
	if box.HidesAccount() {
		d.add(stateOK, "sandbox", "credentials in .git/config are not shown in it: git can't sign in to a server with them", "")
	}
	if paths := box.HiddenSettings(); len(paths) > 0 {
		d.add(stateOK, "sandbox", "not shown in it, since it contains credentials: "+text.JoinFirst(paths, 8), "keep the credentials in another file, or sandbox_home: [PATH] in .trellis/config.yaml; docs/reference/sandbox.md")
	}
}

// missingPaths warns of paths that the settings name and that don't exist.
func (d *diagnosis) missingPaths(key string, paths []string) {
	for _, path := range paths {
		if rest, home := strings.CutPrefix(path, "~/"); home {
			path = filepath.Join(d.console.Getenv("HOME"), rest)
		}
		if _, err := os.Stat(path); err != nil {
			d.add(stateWarning, "sandbox", key+": "+path+" is not there", "make it, or take it out of .trellis/config.yaml")
		}
	}
}
