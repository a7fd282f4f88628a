package mcpserver

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Level is how much a client is offered. Each level includes those before it.
type Level string

// The levels.
const (
	Read Level = "read" // read tasks
	Work Level = "work" // plan, start, stop, retry, cancel, deliver
	All  Level = "all"  // approve and reject plans
)

// Levels are all levels, from the least on.
var Levels = []Level{Read, Work, All}

// ParseLevel returns the level that a person names.
func ParseLevel(name string) (Level, error) {
	if slices.Contains(Levels, Level(name)) {
		return Level(name), nil
	}
	names := trellis.Strings(Levels)
	return "", app.WithNearest(app.Usagef("--tools takes %s, not %q", strings.Join(names, ", "), name), name, names)
}

// includes reports whether the level includes the tools of another level.
func (l Level) includes(of Level) bool { return slices.Index(Levels, of) <= slices.Index(Levels, l) }
