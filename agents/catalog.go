package agents

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
)

// knownCommands holds the settings of programs that speak the Agent Client Protocol. The adapter has no code specific to them.
var knownCommands = map[string]Command{
	"gemini": {Type: ACP, Argv: []string{"gemini", "--acp"}, EnvPass: []string{"GEMINI_API_KEY"}},
}

// Known returns the names of the programs for which [KnownCommand] has settings.
func Known() []string { return slices.Sorted(maps.Keys(knownCommands)) }

// KnownCommand returns the settings with which a project can use a known program as an agent.
func KnownCommand(name string) (c Command, ok bool) {
	c, ok = knownCommands[name]
	return c, ok
}

// UnusedPrograms returns the known programs that are installed but that no agent of the project uses.
func UnusedPrograms(ctx context.Context, o Options) (list []Found) {
	for _, name := range Known() {
		path, err := o.find(knownCommands[name].Argv[0])
		if err != nil || o.isUsed(filepath.Base(path)) {
			continue
		}
		_, version := o.askProgram(ctx, path, "--version")
		list = append(list, Found{Name: name, Path: path, Version: versionRule().FindString(version), SignIn: SignUnknown})
	}
	return list
}

// isUsed reports whether one of the project's own agents runs the given program.
func (o Options) isUsed(program string) bool {
	for _, c := range o.Commands {
		if len(c.Argv) > 0 && filepath.Base(c.Argv[0]) == program {
			return true
		}
	}
	return false
}
