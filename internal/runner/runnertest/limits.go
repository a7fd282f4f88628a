package runnertest

import (
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// Program makes a command agent that runs a shell script the agent of all roles.
func (w *World) Program(output, script string) {
	w.Helper()
	w.Write("../agent.sh", script)
	Commanded(w.Site, filepath.Join(w.Dir, "..", "agent.sh"), output)
}

func Commanded(s *runner.Site, script, output string) {
	o := agents.Options{Environ: os.Environ(), Root: s.Repo.Main, Commands: map[string]agents.Command{"mine": {Argv: []string{"sh", script}, Output: output}}}
	s.Config.Agents.Default = "mine"
	s.Agent = func(name string) (agents.Agent, error) { return agents.New(name, o) }
}
