package sandbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// offline reports whether programs of a kind have no network. Check commands and steps have one only if the project says so: code
// that agents wrote could send out what it finds.
func (b *Box) offline(kind string) bool {
	asks := kind == Verify || kind == Steps
	return slices.Contains(b.Offline, kind) || asks && !slices.Contains(b.Network, kind)
}

// RestrictsNetwork reports whether the network of a program is restricted to a few hosts. That holds for agents and for the setup of what
// they wrote, if a sandbox is required or hosts are configured, unless the project gives the kind the machine's network.
func (b *Box) RestrictsNetwork(n Need) bool {
	asked := b.Mode == Require || b.Mode == Auto && b.Hosts != nil
	command := slices.Contains(CommandKinds(), n.Kind) && !(n.Kind == Setup && n.Agents)
	return asked && !command && !b.offline(n.Kind) && !slices.Contains(b.Network, n.Kind)
}

// CommandKinds returns the kinds of the project's own commands.
func CommandKinds() []string { return []string{Verify, Steps, Setup} }

// OfflineKinds returns the kinds of commands that have no network on this machine.
func (b *Box) OfflineKinds(ctx context.Context) []string {
	if !b.enabled() || !b.detect(ctx).OK() {
		return nil
	}
	return slices.DeleteFunc(CommandKinds(), func(kind string) bool { return !b.offline(kind) })
}

// noNetworkMessage matches messages that there is no network, and connectionRefused messages that no program listens on this machine.
var (
	noNetworkMessage = trellis.Pattern(`(?i)network (?:is )?unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo ENOTFOUND|(?:could not|couldn't|unable to|cannot|failed to|failure) resolv|` +
		`temporary failure (?:in name resolution|resolving)|name or service not known|no such host|server misbehaving|failed to lookup address|nodename nor servname|UnknownHostException|NameResolutionError|dns error|` +
		`lookup \S+ on \S+:53|no route to host|EHOSTUNREACH`)
	connectionRefused = trellis.Pattern(`(?i)connection refused|ECONNREFUSED`)
)

// Explain explains to people why a program with this exit code and output failed in the cell; "" unless the lack of network did
// it.
func (c Cell) Explain(code int, said []byte) string {
	if c.Offline == "" || code == 0 {
		return ""
	}
	if noNetworkMessage().Match(said) {
		return "it has no network in the sandbox: " + NetworkHint(c.Offline)
	}
	if connectionRefused().Match(said) {
		return "in the sandbox it does not reach the servers of this machine: " + NetworkHint(c.Offline)
	}
	return ""
}

// NetworkHint returns what to do if programs of a kind lack the network.
func NetworkHint(kind string) string {
	if kind != Verify && kind != Steps {
		return fmt.Sprintf("take %s out of sandbox_offline in .trellis/config.yaml", kind)
	}
	return fmt.Sprintf("fetch what it needs in worktree.setup, or write sandbox_network: [%s] in .trellis/config.yaml", kind)
}
