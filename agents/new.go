package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Options configures agents. Agents never modify it.
type Options struct {
	Environ  []string           // KEY=VALUE: agents get the variables that they need, and programs are looked up in its PATH
	Shared   []string           // KEY=VALUE: environment of the project's own commands, without secrets; every agent gets it
	Root     string             // the main checkout; relative program paths start there
	Commands map[string]Command // the project's own agents; an entry with the name of a built-in agent replaces it
	APIs     map[string]API     // models that are called directly
	Script   string             // script of the rehearsal agent; empty: .trellis/rehearsal.yaml below Root
	Grace    time.Duration      // how long a program may stay after its result, and after SIGTERM; 0 is 10 s
	Output   int64              // how many bytes a program may print in one run; 0 is 1 GiB
	Secrets  []string           // values, in addition to those from Environ, that are masked in the files kept of a run
	Sandbox  Sandbox            // starts programs in a sandbox; nil: none
	Prices   prices.Table       // list prices of models, used to estimate the cost where none is reported
	// Files lists the files below a folder that a model without a program may see, relative to that folder. If it is nil or
	// fails, all files below the folder are listed.
	Files func(ctx context.Context, dir string) ([]string, error)
}

// ErrUnknown is returned by New and Check when no agent has the given name.
var ErrUnknown = errors.New("unknown agent")

// New returns the agent with the given name. It starts nothing and looks for no program; see [Check].
func New(name string, o Options) (Agent, error) {
	if c, ok := o.Commands[name]; ok {
		if len(c.Argv) == 0 || c.Argv[0] == "" {
			return nil, fmt.Errorf("agent %s has no command", name)
		}
		return newCommand(c, o), nil
	}
	if _, ok := o.APIs[name]; ok {
		return newAPIAgent(name, o)
	}
	if b, ok := builtInNamed(name); ok {
		return &cli{o, func(r Request) (*invocation, error) { return b.invocation(o, r) }}, nil
	}
	if name == Rehearsal {
		return rehearsal{o}, nil
	}
	err := fmt.Errorf("%w %q: there are %s", ErrUnknown, name, strings.Join(o.names(), ", "))
	if meant := trellis.NearestHint(name, o.names()); meant != "" {
		err = fmt.Errorf("%w; %s", err, meant)
	}
	return nil, err
}

func (o Options) names() []string {
	names := slices.AppendSeq(append(Programs(), Rehearsal), maps.Keys(o.Commands))
	names = slices.AppendSeq(names, maps.Keys(o.APIs))
	slices.Sort(names)
	return slices.Compact(names)
}

func (o Options) grace() time.Duration {
	if o.Grace > 0 {
		return o.Grace
	}
	return 10 * time.Second
}

func (o Options) outputLimit() int64 {
	if o.Output > 0 {
		return o.Output
	}
	return maxOutput
}

func (o Options) script() string {
	return cmp.Or(o.Script, filepath.Join(o.Root, ".trellis", "rehearsal.yaml"))
}
