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

// Options is what agents may use. It is read only.
type Options struct {
	Environ  []string           // KEY=VALUE: agents get the part of it that they need, and programs are looked up in its PATH
	Shared   []string           // KEY=VALUE: what the project's own commands get too, without secrets; every agent gets it
	Root     string             // the main checkout, where relative program paths start
	Commands map[string]Command // the project's own agents; one with the name of a built-in agent takes its place
	APIs     map[string]API     // models that are asked directly
	Script   string             // what rehearsal plays; empty: .trellis/rehearsal.yaml below Root
	Grace    time.Duration      // how long a program may stay after its result, and after SIGTERM; 0 is 10 s
	Output   int64              // how many bytes a program may print in one run; 0 is 1 GiB
	Secrets  []string           // values besides those of Environ that are masked in what is kept of a run
	Sandbox  Sandbox            // that programs are started in; nil: none
	Prices   prices.Table       // of models, by which the cost is estimated of what was used by who tells none
	// Files are the files of a folder that a model without a program may know of, from there. Nil, or where that
	// fails: all below it.
	Files func(ctx context.Context, dir string) ([]string, error)
}

// ErrUnknown says that there is no agent of that name.
var ErrUnknown = errors.New("unknown agent")

// New is the agent of that name. It starts nothing and looks for no program; see [Check].
func New(name string, o Options) (Agent, error) {
	if c, ok := o.Commands[name]; ok {
		if len(c.Argv) == 0 || c.Argv[0] == "" {
			return nil, fmt.Errorf("agent %s has no command", name)
		}
		return newCommand(c, o), nil
	}
	if _, ok := o.APIs[name]; ok {
		return newDirect(name, o)
	}
	if b, ok := builtInNamed(name); ok {
		return &cli{o, func(r Request) (*start, error) { return b.begin(o, r) }}, nil
	}
	if name == Rehearsal {
		return rehearsal{o}, nil
	}
	err := fmt.Errorf("%w %q: there are %s", ErrUnknown, name, strings.Join(o.names(), ", "))
	if meant := trellis.Meant(name, o.names()); meant != "" {
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

func (o Options) output() int64 {
	if o.Output > 0 {
		return o.Output
	}
	return maxOutput
}

func (o Options) script() string {
	return cmp.Or(o.Script, filepath.Join(o.Root, ".trellis", "rehearsal.yaml"))
}
