// Package sandbox keeps programs to the folders that they work in: it starts them in a sandbox of the operating
// system, which is bubblewrap's on Linux.
//
// In it the files of the machine are there to read, and few of them to write: the program's folder with what git add
// needs, its own state, caches, and folders for temporary files that nobody else sees. Keys and accounts of the home folder,
// and sockets of other programs, are hidden. What leads git to hooks and settings can't be written.
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

// When programs are started in a sandbox.
const (
	Off     = "off"
	Auto    = "auto"    // where the machine has one
	Require = "require" // or not at all
)

// Kinds of programs, besides the roles of agents.
const (
	Verify = "verify" // what decides: check commands, criteria, preconditions
	Steps  = "steps"  // the commands of a plan's steps
	Setup  = "setup"  // worktree.setup
)

// Box is the sandbox of a project. A nil one is off. Its methods may be called by several goroutines at once.
type Box struct {
	Mode    string
	Environ []string  // in whose PATH bubblewrap is looked for, and whose home folder and caches count
	Repo    *git.Repo // which checkouts there are; nil: none
	Write   []string  // more to write: absolute, or below ~/
	Home    []string  // more to read of what is hidden: absolute, or below ~/
	Network []string  // Verify, Steps and roles, where these have a network, the machine's
	Offline []string  // kinds of programs, and roles, that have none
	Hosts   []string  // what agents reach where their network is narrow, see gateway.ParseHost; with Auto it is where this is not nil
	Program string    // one that calls Entered first thing, without which no network can be narrow
	// How hosts are found and reached, see gateway.Options. Nil: as this machine does.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Env    []string // names of variables that commands get besides the usual ones
	Keys   []string // names of variables that agents of the project's own get

	once  sync.Once
	found Found
	good  sync.Map // launchers that were tried out
}

// Need is what a program needs.
type Need struct {
	Kind string // Verify, Steps, Setup, or a role
	Dir  string // where it works, absolute
	Edit bool   // it writes there
	// Agents says that Setup runs what an agent wrote, and so has no more of a network than agents have.
	Agents bool
	Own    Own
}

// Own are paths of a program's own, absolute. Those that are not there don't count.
type Own struct {
	Write   []string // its state
	Fixed   []string // what in that it may only read: settings that make it run other programs
	Private []string // folders in that which are empty for each run, and gone with it
	Read    []string // what is hidden from others
	Hosts   []string // what it reaches where its network is narrow, see gateway.ParseHost
	Servers []string // host:port of servers that a person set up for it, on this machine or its networks too
}

// Cell is a place in the sandbox for one program. The zero value is none: the program runs as it is.
type Cell struct {
	Launcher []string   // see proc.Command
	Name     string     // of the sandbox and its version
	Offline  string     // the kind of the program, when it has no network
	Files    []*os.File // see proc.Command
	Env      []string   // of the launcher, in the place of what the program's says

	way *way // out, where the network is narrow
}

// Ready says what is missing when a sandbox is required and the machine has none: a *flow.Failure agent_missing.
func (b *Box) Ready(ctx context.Context) error {
	if b == nil || b.Mode != Require {
		return nil
	}
	if f := b.look(ctx); !f.OK() {
		return missing(f.Why + "; " + f.Hint)
	}
	return nil
}

func missing(why string) error {
	return flow.Fail(string(trellis.AgentMissing), "sandbox: require, but %s", why)
}

// Lacking says why programs run without the sandbox that was asked for with auto, "" when they don't.
func (b *Box) Lacking(ctx context.Context) string {
	if b == nil || b.Mode != Auto {
		return ""
	}
	return b.look(ctx).Why
}

// Enter is a place for a program. It is tried out the first time, so that what goes wrong later is the program's own doing. On a
// machine without a sandbox the place is none with auto, and a *flow.Failure agent_missing with require. On one that has
// a sandbox nothing runs outside of it, whatever keeps this place from being set up: an earlier program can be the cause.
func (b *Box) Enter(ctx context.Context, n Need) (Cell, error) {
	if !b.on() {
		return Cell{}, nil
	}
	if err := b.Ready(ctx); err != nil {
		return Cell{}, err
	}
	f := b.look(ctx)
	if !f.OK() {
		return Cell{}, nil
	}
	launcher, err := b.place(ctx, f, n)
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
	case b.Narrow(n):
		return b.narrowed(c, n)
	}
	return c, nil
}

// place is a launcher that works. What others remove while it is looked for is not there the second time.
func (b *Box) place(ctx context.Context, f Found, n Need) (launcher []string, err error) {
	for range 2 {
		if launcher, err = b.arguments(f, n); err == nil {
			err = b.tryOnce(ctx, f, launcher)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return launcher, err
}

// Words are what an agent with this role, that edits in dir, is told of the sandbox, "" when it runs in none.
func (b *Box) Words(ctx context.Context, role, dir string) string {
	if !b.on() || !b.look(ctx).OK() {
		return ""
	}
	text := "Only this folder, caches and the folder for temporary files can be written; the home folder is another one, with tools and without accounts, and is gone afterwards. "
	if top := checkout(resolve(dir)); b.Repo == nil || top != b.Repo.Main {
		text += "git can add, and can't commit, stash, or make or move branches."
	} else { // whose index is beside the settings
		text += "git can't add, commit, stash, or make or move branches; it can show what changed."
	}
	switch {
	case b.offline(role):
		text += " There is no network."
	case b.Narrow(Need{Kind: role}):
		text += " The network reaches " + strings.Join(append([]string{"your model"}, b.Hosts...), ", ") + " and nothing else, by the proxy in HTTPS_PROXY."
	case b.offline(Verify):
		text += " The commands that decide have no network, but for the loopback of their own."
	}
	return text
}

// Try says what keeps this machine's sandbox from being used for a checkout.
func (b *Box) Try(ctx context.Context, dir string) error {
	f := b.look(ctx)
	if !f.OK() {
		return fmt.Errorf("%s", f.Why)
	}
	launcher, err := b.arguments(f, Need{Kind: Verify, Dir: dir})
	if err != nil {
		return err
	}
	return f.try(ctx, b.Environ, launcher)
}

// tryOnce tries a launcher that did not work before.
func (b *Box) tryOnce(ctx context.Context, f Found, launcher []string) error {
	key := strings.Join(launcher, "\x00")
	if _, known := b.good.Load(key); known {
		return nil
	}
	err := f.try(ctx, b.Environ, launcher)
	if err == nil {
		b.good.Store(key, true)
	}
	return err
}

func (b *Box) look(ctx context.Context) Found {
	b.once.Do(func() { b.found = Look(ctx, b.Environ) })
	return b.found
}

// arguments are the launcher of a program.
func (b *Box) arguments(f Found, n Need) ([]string, error) {
	l, err := b.layout(n)
	if err != nil {
		return nil, fmt.Errorf("what may not be written there can't be told: %w; mend that, or remove what is named, and start again", err)
	}
	args := append([]string{f.Path}, apart()...)
	if b.offline(n.Kind) || b.Narrow(n) {
		args = append(args, "--unshare-net")
	}
	return append(append(args, l.mounts()...), "--chdir", n.Dir, "--"), nil
}

func (b *Box) getenv(name string) string {
	value, _ := proc.Getenv(b.Environ, name)
	return value
}

// environ is what bubblewrap itself is tried with.
func environ(env []string) []string { return proc.Environ(env, []string{"PATH", "LANG"}, "LC_ALL=C") }
