package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/cli/configure"
	"github.com/trellis-tasks/trellis/internal/cli/objective"
	"github.com/trellis-tasks/trellis/internal/cli/watch"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func completionCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print or install shell completion of commands, flags, tasks and objectives",
		ArgsUsage: "bash|zsh|fish|install [bash|zsh|fish]",
		Description: command.Manual(`Load it for one session as in the examples. "install" writes it to where the shell looks for a user's
completions, and shows what is left to do; without a shell it uses the one in $SHELL. It changes none of your
startup files. Packages of Trellis contain the scripts, for all users.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis completion bash   # source <(trellis completion bash)", "trellis completion fish   # trellis completion fish | source", "trellis completion install", "trellis completion install zsh"),
		Action: func(c *cli.Context) error {
			shell, more := c.Args().First(), c.Args().Get(1)
			if shell == "install" {
				return installCompletion(a, more)
			}
			if more != "" {
				return app.WithHints(app.Usagef("unexpected argument %q", more), "trellis help completion")
			}
			script, err := commandline.Script("trellis", shell)
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(script)
			return err
		},
	}
}

// completer completes the arguments and flag values of trellis commands.
type completer struct{ a *command.Console }

// Argument returns the candidates for the next argument of a command.
func (c completer) Argument(line *commandline.Line, last string) []string {
	if strings.Contains(line.Command.ArgsUsage, "KEY") {
		return settingCandidates(c.a, line)
	}
	given := line.Positional()
	switch word := commandline.NextWord(line); {
	case strings.Contains(word, "TASKDIR"):
		return commandline.Tasks(c.a, last)
	case word == "OBJECTIVE":
		return slices.DeleteFunc(objective.Candidates(c.a), func(line string) bool {
			name, _, _ := strings.Cut(line, "\t")
			return slices.Contains(given, name)
		})
	case word == "KIND|NAME":
		return notifierNames(c.a)
	case word == "ROLE":
		return trellis.Strings(trellis.Roles)
	}
	return nil
}

// settingCandidates returns the keys of settings, or, for the value of "set", the values that the given key can have.
func settingCandidates(a *command.Console, line *commandline.Line) []string {
	user := slices.Contains(line.Args, "--user")
	given, name := line.Positional(), line.Command.Name
	switch {
	case len(given) == 0:
		return slices.Compact(slices.Sorted(slices.Values(configure.Keys(a, user, name == "unset"))))
	case len(given) > 1 || name != "set":
		return nil
	case given[0] == "agents.default" || strings.HasPrefix(given[0], "agents.roles.") && strings.HasSuffix(given[0], ".agent"):
		return agentNames(a)
	}
	return configure.Values(user, given[0])
}

// Value returns the values that a flag can have, or nil if they are not known.
func (c completer) Value(flag string, line *commandline.Line, last string) (list []string) {
	a := c.a
	switch flag {
	case "type":
		return trellis.DevTypes
	case "priority":
		return trellis.Priorities
	case "phase":
		return phases()
	case "from-issue":
		for _, kind := range tracker.Kinds {
			list = append(list, string(kind)+":")
		}
		return list
	case "graph":
		return roadmap.Graphs
	case "retry", "depends-on", "task", "parent":
		return commandline.Tasks(a, last)
	case "status":
		return trellis.Strings(trellis.Statuses)
	case "by":
		if slices.Equal(line.Path, []string{"stats"}) {
			return trellis.Strings(stats.Groupings)
		}
	case "tools":
		return trellis.Strings(mcpserver.Levels)
	case "log-level":
		return watch.LogLevels()
	case "objective":
		return objective.Candidates(a)
	case "run":
		return []string{"all"}
	case "agent":
		if slices.Equal(line.Path, []string{"init"}) {
			return append(agentNames(a), agents.Known()...)
		}
		return agentNames(a)
	case "step":
		if slices.Equal(line.Path, []string{"objective", "plan"}) {
			return objective.StepCandidates(a, line.Positional())
		}
	}
	return nil
}

func agentNames(a *command.Console) []string {
	list := append(agents.Programs(), agents.Rehearsal)
	p, err := a.OpenRepository()
	if err != nil {
		return list
	}
	cfg, _ := p.Config() // errors in the settings are reported when they are used
	list = slices.AppendSeq(slices.AppendSeq(list, maps.Keys(cfg.Agents.Commands)), maps.Keys(cfg.Agents.APIs))
	slices.Sort(list)
	return slices.Compact(list)
}
