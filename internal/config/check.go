package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// check reports mistakes that no single value shows by its type.
func (d *decoder) check(c *Config) {
	d.roles(c)
	d.commands(c)
	d.apis(c)
	d.prices(c)
	d.agents(c)
	d.worktree(c)
	d.packages(c)
	d.notify(c)
	d.trackers(c)
	d.sandbox(c)
	if _, err := zoneOf(c.Shared.TimeZone); err != nil {
		d.report("shared.time_zone", " is not a time zone: %q; it is a name such as Europe/Berlin or UTC", c.Shared.TimeZone)
	}
	for i, g := range c.Protected {
		if fault := GlobFault(d.root, g); fault != "" {
			d.report(itemKey("protected", i), " %s", fault)
		}
	}
	if !wordPattern().MatchString(c.Delivery.CommitType) {
		d.report("delivery.commit_type", " is one word, such as feat or fix, not %q", c.Delivery.CommitType)
	}
}

var wordPattern = trellis.Pattern(`^[A-Za-z][A-Za-z0-9_-]*$`)

var variablePattern = trellis.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// sortedKeys returns the keys of a map in order, so that problems come in a fixed order.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (d *decoder) roles(c *Config) {
	for _, role := range sortedKeys(c.Agents.Roles) {
		key := "agents.roles." + string(role)
		if !slices.Contains(trellis.Roles, role) {
			d.report(key, " is not a role%s", suggestion(string(role), trellis.Strings(trellis.Roles)))
			continue
		}
		p, own := c.Agents.Roles[role].Permission, role.Permission()
		if p == "" || !isWider(p, own) || p == trellis.PermitFull && own == trellis.PermitEdit {
			continue
		}
		d.report(key+".permission", " can be %s or less, not %s", own, p)
		choice := c.Agents.Roles[role]
		choice.Permission = ""
		c.Agents.Roles[role] = choice
	}
}

// isWider reports whether a allows more than b.
func isWider(a, b trellis.Permission) bool {
	return slices.Index(trellis.Permissions, a) > slices.Index(trellis.Permissions, b)
}

func (d *decoder) commands(c *Config) {
	for _, name := range sortedKeys(c.Agents.Commands) {
		key, command := "agents.commands."+name, c.Agents.Commands[name]
		if len(command.Command) == 0 {
			d.report(key, " names no program: command: [program, argument, …]")
		}
		d.variables(key, command)
		d.sessions(key, command)
		d.protocol(key, command)
		d.unlimitedCommand(key, command, c.Limits)
	}
}

func (d *decoder) variables(key string, c Command) {
	for _, name := range sortedKeys(c.Env) {
		if strings.ContainsAny(name, "=\x00") || strings.Contains(c.Env[name], "\x00") {
			d.report(key+".env."+name, " can't be an environment variable")
		}
	}
	for i, name := range c.EnvPass {
		if name != "" && !variablePattern().MatchString(name) { // it may be a key, so it is not repeated
			d.report(itemKey(key+".env_pass", i), " is the name of an environment variable; its value does not belong in a file")
		}
	}
}

// sessions checks that a command with sessions can report the name of one, and is given it.
func (d *decoder) sessions(key string, c Command) {
	switch {
	case len(c.Session) == 0:
	case !slices.ContainsFunc(c.Session, func(arg string) bool { return strings.Contains(arg, "{{session}}") }):
		d.report(key+".session", " does not say where the session's id goes: session: [--resume, \"{{session}}\"]")
	case c.Output != "events":
		d.report(key+".session", " needs output: events, since only an event can name a session")
	}
}

// protocol checks that a command that speaks a protocol does not also set output or session.
func (d *decoder) protocol(key string, c Command) {
	switch {
	case c.Type == "":
	case c.Output != "":
		d.report(key+".output", " says what a program prints, which the protocol of type: %s defines already: leave output out", c.Type)
	case len(c.Session) > 0:
		d.report(key+".session", " is of no use with type: %s, in which each call has a session of its own: leave session out", c.Type)
	}
}

// unlimitedCommand warns of a command that reports no tokens while there are limits of tokens or cost.
func (d *decoder) unlimitedCommand(key string, c Command, l Limits) {
	if len(c.Command) == 0 || c.Output == "events" || c.Type != "" || l.Tokens == 0 && l.CostUSD == 0 && l.DayTokens == 0 && l.DayCostUSD == 0 {
		return
	}
	d.warn(key, " prints text and reports no tokens: limits of tokens and cost do not apply to it, only those of time do",
		"have it print events, and set output: events (docs/reference/agents.md)")
}

// agents reports names that are not agents: no role could be played by one, and a limit of one would limit nothing.
func (d *decoder) agents(c *Config) {
	known := c.AgentNames()
	if name := c.Agents.Default; name != "" && !slices.Contains(known, name) {
		d.report("agents.default", " is not an agent: %q%s", name, suggestion(name, known))
	}
	for _, role := range sortedKeys(c.Agents.Roles) {
		if name := c.Agents.Roles[role].Agent; name != "" && !slices.Contains(known, name) && slices.Contains(trellis.Roles, role) {
			d.report("agents.roles."+string(role)+".agent", " is not an agent: %q%s", name, suggestion(name, known))
		}
	}
	for _, name := range sortedKeys(c.Limits.PerAgent) {
		if !slices.Contains(known, name) {
			d.report("limits.per_agent."+name, " is not an agent%s", suggestion(name, known))
		}
	}
}

func (d *decoder) worktree(c *Config) {
	switch dir := c.Worktree.Dir; {
	case dir == "":
		d.report("worktree.dir", " is empty")
	case strings.HasPrefix(dir, "~"):
		d.report("worktree.dir", " begins with ~, which only a shell understands: write it from / or from the main checkout")
	default:
		switch below, _ := c.Worktree.relativeDir(d.root); {
		case below == ".":
			d.report("worktree.dir", " is the main checkout itself: name a folder next to it, such as ../<repo>-worktrees")
		case below == gitDir || strings.HasPrefix(below, gitDir+"/"):
			d.report("worktree.dir", " is in git's own folder: name a folder next to the main checkout, such as ../<repo>-worktrees")
		}
	}
	d.localPaths("worktree.copy", c.Worktree.Copy)
	d.localPaths("worktree.warm", c.Worktree.Warm)
}

func (d *decoder) localPaths(key string, paths []string) {
	for i, p := range paths {
		if p != "" && !isLocal(p) {
			d.report(itemKey(key, i), " leads out of the repository: %s", p)
		}
	}
}

// isLocal reports whether a path stays in the folder it begins at.
func isLocal(p string) bool { return filepath.IsLocal(p) && !strings.Contains(p, `\`) }

func (d *decoder) packages(c *Config) {
	for _, name := range sortedKeys(c.Packages) {
		if p := c.Packages[name].Path; p == "" {
			d.report("packages."+name, " has no path")
		} else if !isLocal(p) {
			d.report("packages."+name+".path", " leads out of the repository: %s", p)
		}
	}
	if _, ok := c.Packages[c.DefaultPackage]; !ok && c.DefaultPackage != "" {
		d.report("default_package", " is not one of packages%s", suggestion(c.DefaultPackage, sortedKeys(c.Packages)))
	}
}

// sandbox checks the settings of the sandbox other than its mode.
func (d *decoder) sandbox(c *Config) {
	d.sandboxPaths("sandbox_write", c.SandboxWrite)
	d.sandboxPaths("sandbox_home", c.SandboxHome)
	for i, name := range c.SandboxEnv {
		if !variablePattern().MatchString(name) { // it may be a key, so it is not repeated
			d.report(itemKey("sandbox_env", i), " is the name of an environment variable, in full; its value does not belong in a file")
		}
	}
	known := append([]string{"verify", "steps", "setup"}, trellis.Strings(trellis.Roles)...)
	for i, who := range c.SandboxNetwork {
		if !slices.Contains(known, who) {
			d.report(itemKey("sandbox_network", i), " is neither verify, steps or setup nor a role%s", suggestion(who, known))
		} else if slices.Contains(c.SandboxOffline, who) {
			d.report(itemKey("sandbox_network", i), " says that %s has the network, and sandbox_offline that it has none", who)
		}
	}
	for i, entry := range c.SandboxHosts {
		if _, err := gateway.ParseHost(entry); err != nil {
			d.report(itemKey("sandbox_hosts", i), ": %v", err)
		}
	}
	for i, who := range c.SandboxOffline {
		if !slices.Contains(known, who) {
			d.report(itemKey("sandbox_offline", i), " is neither verify, steps or setup nor a role%s", suggestion(who, known))
		}
	}
}

// sandboxPaths reports paths that are neither absolute nor below the home folder.
func (d *decoder) sandboxPaths(key string, paths []string) {
	for i, p := range paths {
		if rest, home := strings.CutPrefix(p, "~/"); !home && !filepath.IsAbs(p) || home && !filepath.IsLocal(rest) || filepath.Clean(p) == "/" {
			d.report(itemKey(key, i), " is a path that begins with / or ~/ and is below it, not %q", p)
		}
	}
}

// suggestion returns a question about the word that is nearest to s, or else the list of words.
func suggestion(s string, words []string) string {
	if near := trellis.Nearest(s, words); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(" (one of %s)", strings.Join(words, ", "))
}
