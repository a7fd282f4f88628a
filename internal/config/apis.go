package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// builtIn are the names of the agents that are always there.
var builtIn = []string{"claude", "codex", "opencode", "rehearsal"}

// AgentNames are the names of all agents that there are.
func (c *Config) AgentNames() []string {
	return slices.Concat(builtIn, sorted(c.Agents.Commands), sorted(c.Agents.APIs))
}

// keyName is how a variable is called that holds a key: only the values of such are masked wherever they show up.
var keyName = trellis.Pattern(`^[A-Za-z_][A-Za-z0-9_]*_(KEY|TOKEN|SECRET)$`)

// apis checks the models that are asked directly, and that nobody expects one to work on files.
func (d *decoder) apis(c *Config) {
	for _, name := range sorted(c.Agents.APIs) {
		key, a := "agents.apis."+name, c.Agents.APIs[name]
		if _, own := c.Agents.Commands[name]; own || slices.Contains(builtIn, name) {
			d.wrong(key, " has the name of another agent: choose one of its own")
		}
		if a.API == "" {
			d.wrong(key, " does not say how it is asked: api: anthropic, or api: openai")
		}
		if a.Model == "" {
			d.wrong(key, " names no model: model: …")
		}
		if a.KeyEnv != "" && !keyName().MatchString(a.KeyEnv) { // which may be a key: it is not repeated
			d.wrong(key+".key_env", " is the name of an environment variable, ending in _KEY, _TOKEN or _SECRET; the key itself does not belong in a file")
		}
		d.address(key+".base_url", a.BaseURL)
	}
	d.readers(c)
}

func (d *decoder) address(key, address string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		d.wrong(key, " is not an http or https address")
	case u.User != nil || strings.ContainsAny(address, "?#"): // an empty query too, behind which no path is one
		d.wrong(key, " is an address without name, password, ? and #; a key comes from key_env")
	}
}

// readers refuses models that are asked directly in roles that work on files.
func (d *decoder) readers(c *Config) {
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
			d.wrong("agents.roles."+string(role)+".agent", ": %s is a model without a program, which can answer and read; %s works on files", choice.Agent, role)
		}
	}
	if _, direct := c.Agents.APIs[c.Agents.Default]; direct && len(open) > 0 {
		d.wrong("agents.default", ": %s is a model without a program, which can answer and read; name another agent for %s under agents.roles",
			c.Agents.Default, strings.Join(open, ", "))
	}
}
