package agents

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
)

// known are programs that speak the Agent Client Protocol, as settings would have them. The adapter knows nothing of them.
var known = map[string]Command{
	"gemini": {Type: ACP, Argv: []string{"gemini", "--acp"}, EnvPass: []string{"GEMINI_API_KEY"}},
}

// Known are the names of programs that a project can have as agents by [KnownCommand].
func Known() []string { return slices.Sorted(maps.Keys(known)) }

// KnownCommand is the agent of a project's own that a known program is.
func KnownCommand(name string) (c Command, ok bool) {
	c, ok = known[name]
	return c, ok
}

// Unused are the known programs that are installed, and that no agent of the project's own is.
func Unused(ctx context.Context, o Options) (list []Found) {
	for _, name := range Known() {
		path, err := o.find(known[name].Argv[0])
		if err != nil || o.starts(filepath.Base(path)) {
			continue
		}
		_, version := o.askProgram(ctx, path, "--version")
		list = append(list, Found{Name: name, Path: path, Version: versionRule().FindString(version), SignIn: SignUnknown})
	}
	return list
}

// starts reports whether an agent of the project's own is that program.
func (o Options) starts(program string) bool {
	for _, c := range o.Commands {
		if len(c.Argv) > 0 && filepath.Base(c.Argv[0]) == program {
			return true
		}
	}
	return false
}
