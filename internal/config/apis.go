package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// builtInAgents are the names of the agents that always exist.
var builtInAgents = []string{"claude", "codex", "opencode", "rehearsal"}

// AgentNames returns the names of all agents that exist.
func (c *Config) AgentNames() []string {
	return slices.Concat(builtInAgents, sortedKeys(c.Agents.Commands), sortedKeys(c.Agents.APIs))
}

// keyNamePattern matches the names of variables that may hold a key: only values of such variables are masked wherever they show up.
var keyNamePattern = trellis.Pattern(`^[A-Za-z_][A-Za-z0-9_]*_(KEY|TOKEN|SECRET)$`)

// apis checks the models that are called directly, and that no role that works on files has one.
func (d *decoder) apis(c *Config) {
	for _, name := range sortedKeys(c.Agents.APIs) {
		key, a := "agents.apis."+name, c.Agents.APIs[name]
		if _, own := c.Agents.Commands[name]; own || slices.Contains(builtInAgents, name) {
			d.report(key, " has the name of another agent: choose one of its own")
		}
		if a.API == "" {
			d.report(key, " does not name its API: api: anthropic, or api: openai")
		}
		if a.Model == "" {
			d.report(key, " names no model: model: …")
		}
		if a.KeyEnv != "" && !keyNamePattern().MatchString(a.KeyEnv) { // it may be a key, so it is not repeated
			d.report(key+".key_env", " is the name of an environment variable, ending in _KEY, _TOKEN or _SECRET; the key itself does not belong in a file")
		}
		d.address(key+".base_url", a.BaseURL)
	}
	d.directModels(c)
}

func (d *decoder) address(key, address string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		d.report(key, " is not an http or https address")
	case u.User != nil || strings.ContainsAny(address, "?#"): // an empty query too: a path after it is not a path
		d.report(key, " is an address without name, password, ? and #; a key comes from key_env")
	}
}

// directModels reports models that are called directly in roles that work on files.
func (d *decoder) directModels(c *Config) {
	var open []string // the roles that are left to agents.default
	for _, role := range trellis.Roles {
		choice := c.Agents.Roles[role]
		if p := c.PermissionFor(role, ""); p == trellis.PermitNone || p == trellis.PermitRead {
			continue
		}
		if choice.Agent == "" {
			open = append(open, string(role))
		}
		if _, direct := c.Agents.APIs[choice.Agent]; direct {
			d.report("agents.roles."+string(role)+".agent", ": %s is a model without a program, which can answer and read; %s works on files", choice.Agent, role)
		}
	}
	if _, direct := c.Agents.APIs[c.Agents.Default]; direct && len(open) > 0 {
		d.report("agents.default", ": %s is a model without a program, which can answer and read; name another agent for %s under agents.roles",
			c.Agents.Default, strings.Join(open, ", "))
	}
}
