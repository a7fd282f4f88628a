package agents

import (
	"context"
	"slices"
)

// Names of the built-in agents.
const (
	Claude    = "claude"
	Codex     = "codex"
	OpenCode  = "opencode"
	Rehearsal = "rehearsal"
)

// builtIn is an agent whose program has an adapter here.
type builtIn struct {
	name          string
	signInCommand string // command with which a person signs in

	invocation func(Options, Request) (*invocation, error)
	reader     func(Request) reader // returns a reader of the program's output
	signIn     func(o Options, ctx context.Context, path string) SignIn
	addHosts   func(Options, Own) Own // adds the hosts that the agent needs
}

// builtIns returns all built-in agents, in order of preference.
func builtIns() []builtIn {
	return []builtIn{
		{Claude, "claude auth login", func(o Options, r Request) (*invocation, error) { return claude{o}.invocation(r) },
			func(Request) reader { return &claudeStream{messageUsage: map[string]claudeMessageUsage{}} }, Options.claudeSignIn, Options.addClaudeHosts},
		{Codex, "codex login", func(o Options, r Request) (*invocation, error) { return codex{o}.invocation(r) },
			func(r Request) reader { return newCodexStream("", Request{Schema: r.Schema}) }, Options.codexSignIn, Options.addCodexHosts},
		{OpenCode, "opencode auth login", func(o Options, r Request) (*invocation, error) { return openCode{o}.invocation(r) },
			func(Request) reader { return &openCodeStream{} }, Options.openCodeSignIn, func(o Options, own Own) Own { return openCode{o}.addHosts(own, "") }},
	}
}

// builtInNamed returns the built-in agent with the given name.
func builtInNamed(name string) (builtIn, bool) {
	all := builtIns()
	i := slices.IndexFunc(all, func(b builtIn) bool { return b.name == name })
	if i < 0 {
		return builtIn{}, false
	}
	return all[i], true
}

// Programs returns the names of the built-in agents that need a program, in order of preference.
func Programs() (names []string) {
	for _, b := range builtIns() {
		names = append(names, b.name)
	}
	return names
}

// SignInCommand returns the command for signing in to an agent. For a project's own agent it guesses the usual "NAME auth login".
func SignInCommand(name string) string {
	if b, ok := builtInNamed(name); ok {
		return b.signInCommand
	}
	return name + " auth login"
}
