package cli

import (
	"embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/configure"
	"github.com/trellis-tasks/trellis/internal/cli/objective"
	"github.com/trellis-tasks/trellis/internal/cli/watch"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print or install a script that completes commands, flags, tasks and objectives in a shell",
		ArgsUsage: "bash|zsh|fish|install [bash|zsh|fish]",
		Description: command.Manual(`Load it for one session as in the examples. "install" writes it to where the shell looks for those of a
person, and says what is still to do; without a shell it is for the one that $SHELL names. It changes no start
file of yours. Packages of Trellis have the scripts in them, for all users.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis completion bash   # source <(trellis completion bash)", "trellis completion fish   # trellis completion fish | source", "trellis completion install", "trellis completion install zsh"),
		Action: func(c *cli.Context) error {
			shell, more := c.Args().First(), c.Args().Get(1)
			if shell == "install" {
				return installCompletion(a, more)
			}
			if more != "" {
				return app.WithHints(app.Usagef("unexpected argument %q", more), "trellis help completion")
			}
			script, err := completionScript(shell)
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(script)
			return err
		},
	}
}

func completionScript(shell string) ([]byte, error) {
	script, err := completionScripts.ReadFile("completion/" + shell)
	if err != nil {
		return nil, app.Usagef("no completion for %q (bash, zsh or fish)", shell)
	}
	return script, nil
}

// completeCommand is what the scripts of completionCommand call: the words so far, the last one unfinished.
func completeCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:            "__complete",
		Usage:           "print what the last word may become",
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			last := words[len(words)-1]
			for _, line := range candidates(a, words[:len(words)-1], last) {
				if strings.HasPrefix(line, last) {
					fmt.Fprintln(a.Stdout, line)
				}
			}
			return nil
		},
	}
}

// candidates are the words that may stand behind the words so far, each with a tab and what it means.
func candidates(a *command.Console, before []string, last string) []string {
	if list, ok := valueCandidates(a, before, last); ok {
		return list
	}
	line, err := arrange(commandTree(a), before)
	if err != nil { // a word that nobody knows
		return nil
	}
	path := line.path
	if line.command != nil && line.command.Name == "help" {
		path = line.positional()
	}
	at := commandTree(a)
	for _, name := range path {
		if at = find(at.Subcommands, name); at == nil {
			return nil
		}
	}
	switch {
	case strings.HasPrefix(last, "-"):
		return flagCandidates(at)
	case len(at.Subcommands) > 0:
		return commandCandidates(at)
	case strings.Contains(at.ArgsUsage, "KEY"):
		return settingCandidates(a, line)
	}
	return argumentCandidates(a, at.ArgsUsage, line.positional(), last)
}

// argumentCandidates are what the next argument of a command may be, as its help names it: words with bars between them
// are those that there are.
func argumentCandidates(a *command.Console, usage string, given []string, last string) []string {
	words, at := strings.Fields(usage), len(given)
	if strings.Contains(usage, "...") {
		at = min(at, len(words)-1)
	}
	if at >= len(words) {
		return nil
	}
	switch word := strings.Trim(words[at], "[].|"); {
	case strings.Contains(word, "TASKDIR"):
		return taskCandidates(a, last)
	case word == "OBJECTIVE":
		return slices.DeleteFunc(objective.Candidates(a), func(line string) bool {
			name, _, _ := strings.Cut(line, "\t")
			return slices.Contains(given, name)
		})
	case word == "KIND|NAME":
		return notifierNames(a)
	case word == "ROLE":
		return roles()
	case strings.Contains(word, "|") && strings.ToLower(word) == word:
		return strings.Split(word, "|")
	}
	return nil
}

// settingCandidates are the settings, and behind one the words that it can have.
func settingCandidates(a *command.Console, line *commandLine) []string {
	user := slices.Contains(line.args, "--user")
	given, name := line.positional(), line.command.Name
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

func roles() (list []string) {
	for _, r := range trellis.Roles {
		list = append(list, string(r))
	}
	return list
}

// positional are the arguments that are no flags.
func (l *commandLine) positional() []string {
	rest := l.args[len(l.path):]
	if l.command != nil && l.command.SkipFlagParsing {
		return rest
	}
	if n := slices.Index(rest, "--"); n >= 0 {
		return rest[n+1:]
	}
	return nil
}

// valueCandidates are what the value of a flag may become, when it is one that stands last: behind the flag, or in one
// word with it.
func valueCandidates(a *command.Console, before []string, last string) (list []string, ok bool) {
	flag, prefix := "", ""
	if name, _, joined := strings.Cut(last, "="); joined && strings.HasPrefix(name, "--") {
		flag, prefix = name, name+"="
	} else if n := len(before); n > 0 && !strings.Contains(before[n-1], "=") {
		flag, before = before[n-1], before[:n-1]
	}
	if !strings.HasPrefix(flag, "-") {
		return nil, false
	}
	line, err := arrange(commandTree(a), before)
	if err != nil || line.command == nil {
		return nil, false
	}
	known := findFlag(line.command.Flags, strings.TrimLeft(flag, "-"))
	if known == nil || !takesValue(known) {
		return nil, false
	}
	for _, v := range flagValues(a, known.Names()[0], line, strings.TrimPrefix(last, prefix)) {
		list = append(list, prefix+v)
	}
	return list, true
}

// flagValues are the values that a flag may take, where they are known.
func flagValues(a *command.Console, name string, line *commandLine, last string) (list []string) {
	switch name {
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
		return taskCandidates(a, last)
	case "status":
		for _, s := range trellis.Statuses {
			list = append(list, string(s))
		}
		return list
	case "by":
		if slices.Equal(line.path, []string{"stats"}) {
			for _, kind := range stats.Kinds {
				list = append(list, string(kind))
			}
		}
		return list
	case "tools":
		for _, level := range mcpserver.Levels {
			list = append(list, string(level))
		}
		return list
	case "log-level":
		return watch.LogLevels()
	case "objective":
		return objective.Candidates(a)
	case "run":
		return []string{"all"}
	case "agent":
		if slices.Equal(line.path, []string{"init"}) {
			return append(agentNames(a), agents.Known()...)
		}
		return agentNames(a)
	case "step":
		if slices.Equal(line.path, []string{"objective", "plan"}) {
			return objective.StepCandidates(a, line.positional())
		}
	}
	return nil
}

// agentNames are the agents that there are and those of the project.
func agentNames(a *command.Console) []string {
	list := []string{agents.Claude, agents.Codex, agents.OpenCode, agents.Rehearsal}
	p, err := a.OpenRepository()
	if err != nil {
		return list
	}
	cfg, _ := p.Config() // what is wrong with it is said when it is used
	list = slices.AppendSeq(slices.AppendSeq(list, maps.Keys(cfg.Agents.Commands)), maps.Keys(cfg.Agents.APIs))
	slices.Sort(list)
	return slices.Compact(list)
}

func flagCandidates(at *cli.Command) []string {
	list := []string{"--help\tshow help"}
	for _, f := range at.Flags {
		_, usage, _ := strings.Cut(flagLine(f), "\t")
		list = append(list, dashed(f.Names()[0])+"\t"+usage)
	}
	return list
}

func commandCandidates(at *cli.Command) []string {
	var list []string
	for _, c := range at.Subcommands {
		if !c.Hidden {
			list = append(list, c.Name+"\t"+c.Usage)
		}
	}
	return list
}

// taskCandidates are the tasks by their names, without the day where only one has the name, or by their directories when
// the word begins with a digit. They are read without a look into them.
func taskCandidates(a *command.Console, last string) []string {
	p, err := a.OpenRepository()
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(p.Store.Tasks())
	if err != nil {
		return nil
	}
	var dirs []string
	count := map[string]int{}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "archive" && !strings.HasPrefix(e.Name(), ".") {
			_, name := taskdir.SplitID(e.Name())
			dirs = append(dirs, e.Name())
			count[name]++
		}
	}
	var list []string
	for _, dir := range dirs {
		_, name := taskdir.SplitID(dir)
		if count[name] > 1 || last != "" && last[0] >= '0' && last[0] <= '9' {
			name = dir
		}
		list = append(list, name+"\ttask "+dir)
	}
	return list
}
