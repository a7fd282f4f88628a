package main

import (
	"embed"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

//go:embed completion
var completionScripts embed.FS

// completionCommand is `trellis completion`.
func (a *app) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands, flags, tasks and objectives in a shell",
		ArgsUsage:   "bash|zsh|fish",
		Description: manual(`Load it for one session as in the examples, or from your shell's start file.`, []int{exitDone, exitUsage}, "trellis completion bash   # source <(trellis completion bash)", "trellis completion fish   # trellis completion fish | source"),
		Action: func(c *cli.Context) error {
			shell, err := oneArgument(c, "bash, zsh or fish")
			if err != nil {
				return err
			}
			script, err := completionScripts.ReadFile("completion/" + shell)
			if err != nil {
				return usagef("no completion for %q (bash, zsh or fish)", shell)
			}
			_, err = a.Stdout.Write(script)
			return err
		},
	}
}

// completeCommand is what the scripts of completionCommand call: the words so far, the last one unfinished.
func (a *app) completeCommand() *cli.Command {
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
			for _, line := range a.candidates(words[:len(words)-1], last) {
				if strings.HasPrefix(line, last) {
					fmt.Fprintln(a.Stdout, line)
				}
			}
			return nil
		},
	}
}

// candidates are the words that may stand behind the words so far, each with a tab and what it means.
func (a *app) candidates(before []string, last string) []string {
	if n := len(before); n > 2 && before[0] == "objective" && before[n-1] == "--step" {
		return a.objectiveSteps(before[2 : n-1])
	}
	line, err := arrange(a.root(), before)
	if err != nil { // a flag that waits for its value, or a word that nobody knows
		return nil
	}
	at := a.root()
	path := line.path
	if line.command != nil && line.command.Name == "help" {
		path = line.args[min(2, len(line.args)):]
	}
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
	case line.args[len(line.args)-1] != line.path[len(line.path)-1]: // the first argument is there
	case strings.HasPrefix(strings.TrimPrefix(at.ArgsUsage, "["), "TASKDIR"):
		return a.taskCandidates()
	case strings.HasPrefix(strings.TrimPrefix(at.ArgsUsage, "["), "OBJECTIVE"):
		return a.objectiveNames()
	}
	return nil
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

// taskCandidates are the directory names of the tasks, read without a look into them.
func (a *app) taskCandidates() []string {
	p, err := a.openRepository()
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(p.Store.Tasks())
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "archive" && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, e.Name()+"\ttask")
		}
	}
	return list
}

// oneArgument is the only argument, which is what.
func oneArgument(c *cli.Context, what string) (string, error) {
	if c.NArg() != 1 {
		return "", hint(usagef("%s wants one argument: %s", c.Command.HelpName, what), helpFor(strings.Fields(c.Command.HelpName)[1:]))
	}
	return c.Args().First(), nil
}
