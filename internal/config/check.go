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
		d.wrong("shared.time_zone", " is not a time zone: %q; it is a name such as Europe/Berlin or UTC", c.Shared.TimeZone)
	}
	for i, g := range c.Protected {
		if fault := GlobFault(d.root, g); fault != "" {
			d.wrong(item("protected", i), " %s", fault)
		}
	}
	if !word().MatchString(c.Delivery.CommitType) {
		d.wrong("delivery.commit_type", " is one word, such as feat or fix, not %q", c.Delivery.CommitType)
	}
}

var word = trellis.Pattern(`^[A-Za-z][A-Za-z0-9_-]*$`)

var variable = trellis.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// sorted returns the keys of a map in order, so that problems come in a fixed order.
func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (d *decoder) roles(c *Config) {
	for _, role := range sorted(c.Agents.Roles) {
		key := "agents.roles." + string(role)
		if !slices.Contains(trellis.Roles, role) {
			d.wrong(key, " is not a role%s", meant(string(role), trellis.Strings(trellis.Roles)))
			continue
		}
		p, own := c.Agents.Roles[role].Permission, role.Permission()
		if p == "" || !wider(p, own) || p == trellis.PermitFull && own == trellis.PermitEdit {
			continue
		}
		d.wrong(key+".permission", " can be %s or less, not %s", own, p)
		choice := c.Agents.Roles[role]
		choice.Permission = ""
		c.Agents.Roles[role] = choice
	}
}

// wider reports whether a allows more than b.
func wider(a, b trellis.Permission) bool {
	return slices.Index(trellis.Permissions, a) > slices.Index(trellis.Permissions, b)
}

func (d *decoder) commands(c *Config) {
	for _, name := range sorted(c.Agents.Commands) {
		key, command := "agents.commands."+name, c.Agents.Commands[name]
		if len(command.Command) == 0 {
			d.wrong(key, " names no program: command: [program, argument, …]")
		}
		d.variables(key, command)
		d.sessions(key, command)
		d.protocol(key, command)
		d.unbound(key, command, c.Limits)
	}
}

func (d *decoder) variables(key string, c Command) {
	for _, name := range sorted(c.Env) {
		if strings.ContainsAny(name, "=\x00") || strings.Contains(c.Env[name], "\x00") {
			d.wrong(key+".env."+name, " can't be an environment variable")
		}
	}
	for i, name := range c.EnvPass {
		if name != "" && !variable().MatchString(name) { // it may be a key, so it is not repeated
			d.wrong(item(key+".env_pass", i), " is the name of an environment variable; its value does not belong in a file")
		}
	}
}

// sessions checks that a command with sessions can report the name of one, and is given it.
func (d *decoder) sessions(key string, c Command) {
	switch {
	case len(c.Session) == 0:
	case !slices.ContainsFunc(c.Session, func(arg string) bool { return strings.Contains(arg, "{{session}}") }):
		d.wrong(key+".session", " does not say where the session stands: session: [--resume, \"{{session}}\"]")
	case c.Output != "events":
		d.wrong(key+".session", " needs output: events, since only an event can name a session")
	}
}

// protocol checks that a command that speaks a protocol does not also set output or session.
func (d *decoder) protocol(key string, c Command) {
	switch {
	case c.Type == "":
	case c.Output != "":
		d.wrong(key+".output", " says what a program prints, which with type: %s the protocol says: leave output out", c.Type)
	case len(c.Session) > 0:
		d.wrong(key+".session", " is of no use with type: %s, in which each call has a session of its own: leave session out", c.Type)
	}
}

// unbound warns of a command that reports no tokens while there are limits of tokens or cost.
func (d *decoder) unbound(key string, c Command, l Limits) {
	if len(c.Command) == 0 || c.Output == "events" || c.Type != "" || l.Tokens == 0 && l.CostUSD == 0 && l.DayTokens == 0 && l.DayCostUSD == 0 {
		return
	}
	d.warn(key, " prints text and tells no tokens: limits of tokens and cost bind nothing of it, only those of time do",
		"have it print events, and set output: events (docs/reference/agents.md)")
}

// agents reports names that are not agents: no role could be played by one, and a limit of one would limit nothing.
func (d *decoder) agents(c *Config) {
	known := c.AgentNames()
	if name := c.Agents.Default; name != "" && !slices.Contains(known, name) {
		d.wrong("agents.default", " is not an agent: %q%s", name, meant(name, known))
	}
	for _, role := range sorted(c.Agents.Roles) {
		if name := c.Agents.Roles[role].Agent; name != "" && !slices.Contains(known, name) && slices.Contains(trellis.Roles, role) {
			d.wrong("agents.roles."+string(role)+".agent", " is not an agent: %q%s", name, meant(name, known))
		}
	}
	for _, name := range sorted(c.Limits.PerAgent) {
		if !slices.Contains(known, name) {
			d.wrong("limits.per_agent."+name, " is not an agent%s", meant(name, known))
		}
	}
}

func (d *decoder) worktree(c *Config) {
	switch dir := c.Worktree.Dir; {
	case dir == "":
		d.wrong("worktree.dir", " is empty")
	case strings.HasPrefix(dir, "~"):
		d.wrong("worktree.dir", " begins with ~, which only a shell understands: write it from / or from the main checkout")
	default:
		switch below, _ := c.Worktree.below(d.root); {
		case below == ".":
			d.wrong("worktree.dir", " is the main checkout itself: name a folder beside it, such as ../<repo>-worktrees")
		case below == gitDir || strings.HasPrefix(below, gitDir+"/"):
			d.wrong("worktree.dir", " lies in git's own folder: name a folder beside the main checkout, such as ../<repo>-worktrees")
		}
	}
	d.inside("worktree.copy", c.Worktree.Copy)
	d.inside("worktree.warm", c.Worktree.Warm)
}

func (d *decoder) inside(key string, paths []string) {
	for i, p := range paths {
		if p != "" && !inside(p) {
			d.wrong(item(key, i), " leads out of the repository: %s", p)
		}
	}
}

// inside reports whether a path stays in the folder it begins at.
func inside(p string) bool { return filepath.IsLocal(p) && !strings.Contains(p, `\`) }

func (d *decoder) packages(c *Config) {
	for _, name := range sorted(c.Packages) {
		if p := c.Packages[name].Path; p == "" {
			d.wrong("packages."+name, " has no path")
		} else if !inside(p) {
			d.wrong("packages."+name+".path", " leads out of the repository: %s", p)
		}
	}
	if _, ok := c.Packages[c.DefaultPackage]; !ok && c.DefaultPackage != "" {
		d.wrong("default_package", " is not one of packages%s", meant(c.DefaultPackage, sorted(c.Packages)))
	}
}

// sandbox checks the settings of the sandbox other than its mode.
func (d *decoder) sandbox(c *Config) {
	d.below("sandbox_write", c.SandboxWrite)
	d.below("sandbox_home", c.SandboxHome)
	for i, name := range c.SandboxEnv {
		if !variable().MatchString(name) { // it may be a key, so it is not repeated
			d.wrong(item("sandbox_env", i), " is the name of an environment variable, in full; its value does not belong in a file")
		}
	}
	known := append([]string{"verify", "steps", "setup"}, trellis.Strings(trellis.Roles)...)
	for i, who := range c.SandboxNetwork {
		if !slices.Contains(known, who) {
			d.wrong(item("sandbox_network", i), " is neither verify, steps or setup nor a role%s", meant(who, known))
		} else if slices.Contains(c.SandboxOffline, who) {
			d.wrong(item("sandbox_network", i), " says that %s has the network, and sandbox_offline that it has none", who)
		}
	}
	for i, entry := range c.SandboxHosts {
		if _, err := gateway.ParseHost(entry); err != nil {
			d.wrong(item("sandbox_hosts", i), ": %v", err)
		}
	}
	for i, who := range c.SandboxOffline {
		if !slices.Contains(known, who) {
			d.wrong(item("sandbox_offline", i), " is neither verify, steps or setup nor a role%s", meant(who, known))
		}
	}
}

// below reports paths that are neither absolute nor below the home folder.
func (d *decoder) below(key string, paths []string) {
	for i, p := range paths {
		if rest, home := strings.CutPrefix(p, "~/"); !home && !filepath.IsAbs(p) || home && !filepath.IsLocal(rest) || filepath.Clean(p) == "/" {
			d.wrong(item(key, i), " is a path that begins with / or ~/ and is below it, not %q", p)
		}
	}
}

// meant returns a question about the word that is nearest to s, or else the list of words.
func meant(s string, words []string) string {
	if near := trellis.Nearest(s, words); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(" (one of %s)", strings.Join(words, ", "))
}
