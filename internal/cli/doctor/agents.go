package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// agents checks the programs that could play the roles, and the agents that the settings name.
func (d *diagnosis) agents(ctx context.Context, p *app.Project, c *config.Config) {
	o := p.Agents(c).Options()
	if c.Sandbox != sandbox.Off {
		o.Sandbox = app.AgentSandbox(p.Agents(c).Box())
	}
	usable := false
	for _, f := range agents.Detect(ctx, o) {
		switch {
		case f.Path == "":
			d.add(stateOK, f.Name, "not installed", "")
			continue
		case f.SignIn == agents.NotSignedIn:
			d.add(stateWarning, f.Name, strings.TrimSpace(f.Version+" is not signed in"), agents.SignInCommand(f.Name))
			continue
		case f.Unboxed:
			d.add(stateError, f.Name, f.Version+": its own sandbox can't run here, so that every command of it would fail",
				"find out why: codex sandbox -- true; else sandbox: require and permission: full for the roles that edit, or another agent")
			continue
		}
		usable = true
		if f.Shut != "" {
			d.add(stateWarning, f.Name, f.Version+" does not start in the sandbox: "+f.Shut, "name what it is made of: sandbox_home: [FOLDER] in .trellis/config.yaml; docs/reference/sandbox.md")
			continue
		}
		d.add(stateOK, f.Name, strings.TrimSpace(fmt.Sprintf("%s, signed in: %s", f.Version, f.SignIn)), "")
	}
	for _, f := range agents.UnusedPrograms(ctx, o) {
		d.add(stateOK, f.Name, strings.TrimSpace(f.Version+" is not an agent of this project"),
			"name it under agents.commands in .trellis/config.yaml: "+f.Name+": "+CommandLine(f.Name)+"; docs/reference/agents.md")
	}
	var roles *runner.Roles // nil if the settings can't be used, which is reported elsewhere
	if s, err := readingSite(ctx, p); err == nil {
		rs := s.Roles()
		roles = &rs
	}
	named, able := namedAgents(c, roles), "" // able is the first that can be used
	d.apis(ctx, o, named)
	for _, name := range named {
		if _, listed := o.APIs[name]; listed {
			continue
		}
		err := agents.Check(ctx, name, o)
		if d.verdict("agent", name+" can be used", err); err == nil {
			usable, able = true, cmp.Or(able, name)
		}
	}
	if roles != nil {
		d.roles(*roles, able)
	}
	unread := roles == nil && p.Repo != nil           // unreadable settings may name an agent
	if !usable && c.Agents.Default == "" && !unread { // otherwise it was reported why that agent can't work
		d.add(stateError, "agent", "no agent can be used", d.agentHint(ctx, c, o))
	}
}

// agentHint returns what to do if no agent can be used: set a program of agents.commands for all roles, or install an agent.
func (d *diagnosis) agentHint(ctx context.Context, c *config.Config, o agents.Options) string {
	for _, name := range slices.Sorted(maps.Keys(c.Agents.Commands)) {
		if agents.Check(ctx, name, o) == nil {
			return "trellis config set agents.default " + trellis.ShellWord(name)
		}
	}
	return "install claude, codex or opencode and sign in, or name a program of your own in agents.commands"
}

// readingSite returns the reading site of a project, or an error if it has no repository.
func readingSite(ctx context.Context, p *app.Project) (*runner.Site, error) {
	if p.Repo == nil {
		return nil, fs.ErrNotExist
	}
	return p.ReadingSite(ctx)
}

// roles reports mistakes in the instructions of roles. If an agent, able, can be used, it also reports the roles that no
// agent plays: a warning for those of planning, as tasks that people write run without them, and an error for the others.
func (d *diagnosis) roles(roles runner.Roles, able string) {
	for _, err := range roles.Mistakes() {
		d.verdict("roles", "", err)
	}
	if able == "" {
		return
	}
	planning, running := roles.RolesWithoutAgent()
	for _, of := range []struct {
		state string
		roles []trellis.Role
	}{{stateWarning, planning}, {stateError, running}} {
		if len(of.roles) > 0 {
			d.add(of.state, "agent", "no agent is named for "+strings.Join(trellis.Strings(of.roles), ", "), "trellis config set agents.default "+trellis.ShellWord(able))
		}
	}
}

// CommandLine returns what agents.commands may say about a known program.
func CommandLine(name string) string {
	c, _ := agents.KnownCommand(name)
	return fmt.Sprintf("{type: %s, command: [%s], env_pass: [%s]}", c.Type, strings.Join(c.Argv, ", "), strings.Join(c.EnvPass, ", "))
}

// namedAgents returns the agents that config and the files of roles ask for, sorted, each once.
func namedAgents(c *config.Config, roles *runner.Roles) []string {
	names := map[string]bool{c.Agents.Default: true}
	if roles != nil {
		for _, name := range roles.Named() {
			names[name] = true
		}
	}
	for _, r := range c.Agents.Roles {
		names[r.Agent] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// apis reports the models that are called directly, and whether their keys are set: a missing key
// is an error for a model that config names for a role, else a warning. Nothing is sent to them.
func (d *diagnosis) apis(ctx context.Context, o agents.Options, named []string) {
	for _, name := range slices.Sorted(maps.Keys(o.APIs)) {
		model := strings.TrimSpace(o.APIs[name].Model + " " + o.APIs[name].BaseURL)
		err := agents.Check(ctx, name, o)
		if err == nil {
			d.add(stateOK, name, model+", asked directly", "")
			continue
		}
		state := stateWarning
		if slices.Contains(named, name) {
			state = stateError
		}
		d.add(state, name, model+": "+flow.AsFailure(err).Detail, "put the key into that variable of the environment")
	}
}
