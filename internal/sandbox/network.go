package sandbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// offline reports whether a kind of programs has no network: what decides and steps have one only where the project says so,
// since what agents wrote would send what it finds.
func (b *Box) offline(kind string) bool {
	asks := kind == Verify || kind == Steps
	return slices.Contains(b.Offline, kind) || asks && !slices.Contains(b.Network, kind)
}

// Narrow reports whether a program reaches a few hosts alone: agents, and the setup of what they wrote, where a sandbox is required
// or hosts are named, unless the project gives its kind the machine's network.
func (b *Box) Narrow(n Need) bool {
	asked := b.Mode == Require || b.Mode == Auto && b.Hosts != nil
	command := slices.Contains(CommandKinds(), n.Kind) && !(n.Kind == Setup && n.Agents)
	return asked && !command && !b.offline(n.Kind) && !slices.Contains(b.Network, n.Kind)
}

// CommandKinds are the kinds of the project's own commands.
func CommandKinds() []string { return []string{Verify, Steps, Setup} }

// Unconnected are the kinds of commands that have no network on this machine.
func (b *Box) Unconnected(ctx context.Context) []string {
	if !b.on() || !b.look(ctx).OK() {
		return nil
	}
	return slices.DeleteFunc(CommandKinds(), func(kind string) bool { return !b.offline(kind) })
}

// unreached is how programs say that there is no network, and refused how they say that nobody listens on this machine.
var (
	unreached = trellis.Pattern(`(?i)network (?:is )?unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo ENOTFOUND|(?:could not|couldn't|unable to|cannot|failed to|failure) resolv|` +
		`temporary failure (?:in name resolution|resolving)|name or service not known|no such host|server misbehaving|failed to lookup address|nodename nor servname|UnknownHostException|NameResolutionError|dns error|` +
		`lookup \S+ on \S+:53|no route to host|EHOSTUNREACH`)
	refused = trellis.Pattern(`(?i)connection refused|ECONNREFUSED`)
)

// Explain is what people are to be told of a program that failed in this place and said this, "" when it is nothing.
func (c Cell) Explain(code int, said []byte) string {
	if c.Offline == "" || code == 0 {
		return ""
	}
	if unreached().Match(said) {
		return "it has no network in the sandbox: " + NetworkHint(c.Offline)
	}
	if refused().Match(said) {
		return "in the sandbox it does not reach the servers of this machine: " + NetworkHint(c.Offline)
	}
	return ""
}

// NetworkHint is what to do where a kind of programs lacks the network.
func NetworkHint(kind string) string {
	if kind != Verify && kind != Steps {
		return fmt.Sprintf("take %s out of sandbox_offline in .trellis/config.yaml", kind)
	}
	return fmt.Sprintf("fetch what it needs in worktree.setup, or write sandbox_network: [%s] in .trellis/config.yaml", kind)
}
