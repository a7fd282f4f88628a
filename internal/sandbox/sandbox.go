// Package sandbox restricts programs to the folders that they work in. It starts them in a sandbox of the operating system, which
// is bubblewrap on Linux.
//
// In the sandbox the files of the machine can be read, and a few can be written: the program's folder with what git add needs,
// the program's state, caches, and folders for temporary files that no other program sees. Keys and accounts in the home folder
// and sockets of other programs are hidden. Files that lead git to hooks and settings can't be written.
package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Values of Box.Mode: when programs are started in a sandbox.
const (
	Off     = "off"
	Auto    = "auto"    // if the machine has one
	Require = "require" // always; without a sandbox programs are not started
)

// Kinds of programs, in addition to the roles of agents.
const (
	Verify = "verify" // check commands, criteria, preconditions
	Steps  = "steps"  // the commands of a plan's steps
	Setup  = "setup"  // worktree.setup
)

// Box is the sandbox of a project. A nil Box is off. Its methods may be called concurrently.
type Box struct {
	Mode    string
	Environ []string  // environment with the PATH for bubblewrap, the home folder and the caches
	Repo    *git.Repo // the repository with its checkouts; nil: none
	Write   []string  // further paths that can be written: absolute, or below ~/
	Home    []string  // hidden paths that can be read nevertheless: absolute, or below ~/
	Network []string  // kinds (Verify, Steps) and roles that have the machine's network
	Offline []string  // kinds of programs, and roles, that have no network
	Hosts   []string  // hosts that agents reach if their network is restricted, see gateway.ParseHost; with Auto it is restricted if this is not nil
	Program string    // path of a program that calls RunEntrance first; required for restricting a network
	// How hosts are resolved and dialled, see gateway.Options. Nil: as this machine does it.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Env    []string // names of the variables that commands get in addition to the usual ones
	Keys   []string // names of the variables that the project's own agents get

	once             sync.Once
	found            Found
	workingLaunchers sync.Map // launchers that were tried and work
}

// Need describes what a program needs.
type Need struct {
	Kind string // Verify, Steps, Setup, or a role
	Dir  string // absolute path of its working directory
	Edit bool   // it may write there
	// Agents means that Setup runs code that an agent wrote, and so gets no more of a network than agents.
	Agents bool
	Own    Own
}

// Own lists the paths and hosts of a program itself. Paths are absolute; those that do not exist are ignored.
type Own struct {
	Write   []string // the program's state
	Fixed   []string // read-only parts of Write: settings that make it run other programs
	Private []string // folders in Write that are empty for each run and discarded after it
	Read    []string // paths that it may read, which are hidden from other programs
	Hosts   []string // hosts that it reaches if its network is restricted, see gateway.ParseHost
	Servers []string // host:port of servers that a person configured for it, also on this machine or its networks
}

// Cell is a sandbox for one program. The zero value means no sandbox: the program runs directly.
type Cell struct {
	Launcher []string   // see proc.Command
	Name     string     // name and version of the sandbox
	Offline  string     // the kind of the program, if it has no network
	Files    []*os.File // see proc.Command
	Env      []string   // variables for the launcher, overriding those of the program

	bridge *networkBridge // connection to the outside, if the network is restricted
}

// Ready returns a *flow.Failure agent_missing if a sandbox is required and the machine has none.
func (b *Box) Ready(ctx context.Context) error {
	if b == nil || b.Mode != Require {
		return nil
	}
	if f := b.detect(ctx); !f.OK() {
		return flow.Fail(string(trellis.AgentMissing), "sandbox: require, but %s; %s", f.Why, f.Hint)
	}
	return nil
}

// MissingReason returns why programs run without the sandbox that auto asks for, or "" if they run in it.
func (b *Box) MissingReason(ctx context.Context) string {
	if b == nil || b.Mode != Auto {
		return ""
	}
	return b.detect(ctx).Why
}

// Enter returns a Cell for a program. A launcher is tried before its first use, so that later errors are the program's own. On a
// machine without a sandbox, Enter returns no sandbox with auto, and a *flow.Failure agent_missing with require. On a machine
// that has a sandbox, nothing runs outside of it, even if this Cell can't be set up: an earlier program may be the cause.
func (b *Box) Enter(ctx context.Context, n Need) (Cell, error) {
	if !b.enabled() {
		return Cell{}, nil
	}
	if err := b.Ready(ctx); err != nil {
		return Cell{}, err
	}
	f := b.detect(ctx)
	if !f.OK() {
		return Cell{}, nil
	}
	launcher, err := b.workingLauncher(ctx, f, n)
	switch {
	case ctx.Err() != nil:
		return Cell{}, context.Cause(ctx)
	case err != nil:
		return Cell{}, flow.Fail(string(trellis.AgentMissing), "sandbox: %s, but %v", b.Mode, err)
	}
	c := Cell{Launcher: launcher, Name: f.String()}
	switch {
	case b.offline(n.Kind):
		c.Offline = n.Kind
	case b.RestrictsNetwork(n):
		return b.restrictNetwork(c, n)
	}
	return c, nil
}

// workingLauncher returns a launcher that works. It tries twice, in case another process removes files in the meantime.
func (b *Box) workingLauncher(ctx context.Context, f Found, n Need) (launcher []string, err error) {
	for range 2 {
		if launcher, err = b.launcher(f, n); err == nil {
			err = b.tryOnce(ctx, f, launcher)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return launcher, err
}

// PromptText returns what an agent in this role that edits in dir is told about the sandbox, or "" if it runs in none.
func (b *Box) PromptText(ctx context.Context, role, dir string) string {
	if !b.enabled() || !b.detect(ctx).OK() {
		return ""
	}
	text := "Only this folder, caches and the folder for temporary files can be written; the home folder is another one, with tools and without credentials, and is gone afterwards. "
	if top := checkoutTop(resolve(dir)); b.Repo == nil || top != b.Repo.Main {
		text += "git can add, and can't commit, stash, or make or move branches."
	} else { // the index of the main checkout is next to the settings
		text += "git can't add, commit, stash, or make or move branches; it can show what changed."
	}
	switch {
	case b.offline(role):
		text += " There is no network."
	case b.RestrictsNetwork(Need{Kind: role}):
		text += " The network reaches " + strings.Join(append([]string{"your model"}, b.Hosts...), ", ") + " and nothing else, by the proxy in HTTPS_PROXY."
	case b.offline(Verify):
		text += " The commands that decide have no network except a loopback of their own."
	}
	return text
}

// Try returns an error if this machine's sandbox can't be used for a checkout.
func (b *Box) Try(ctx context.Context, dir string) error {
	f := b.detect(ctx)
	if !f.OK() {
		return fmt.Errorf("%s", f.Why)
	}
	launcher, err := b.launcher(f, Need{Kind: Verify, Dir: dir})
	if err != nil {
		return err
	}
	return f.try(ctx, b.Environ, launcher)
}

// tryOnce tries a launcher, unless it has worked before.
func (b *Box) tryOnce(ctx context.Context, f Found, launcher []string) error {
	key := strings.Join(launcher, "\x00")
	if _, known := b.workingLaunchers.Load(key); known {
		return nil
	}
	err := f.try(ctx, b.Environ, launcher)
	if err == nil {
		b.workingLaunchers.Store(key, true)
	}
	return err
}

func (b *Box) detect(ctx context.Context) Found {
	b.once.Do(func() { b.found = Detect(ctx, b.Environ) })
	return b.found
}

// launcher returns the launcher of a program.
func (b *Box) launcher(f Found, n Need) ([]string, error) {
	l, err := b.layout(n)
	if err != nil {
		return nil, fmt.Errorf("can't tell what may not be written there: %w; fix that, or remove what is named, and start again", err)
	}
	args := append([]string{f.Path}, isolationArgs()...)
	if b.offline(n.Kind) || b.RestrictsNetwork(n) {
		args = append(args, "--unshare-net")
	}
	return append(append(args, l.mounts()...), "--chdir", n.Dir, "--"), nil
}

func (b *Box) getenv(name string) string {
	value, _ := proc.Getenv(b.Environ, name)
	return value
}

// environ returns the environment for trying bubblewrap itself.
func environ(env []string) []string { return proc.Environ(env, []string{"PATH", "LANG"}, "LC_ALL=C") }
