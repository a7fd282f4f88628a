package commandline

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/taskdir"
)

//go:embed completion
var scripts embed.FS

// Script returns the script that has a shell complete a program.
func Script(program, shell string) ([]byte, error) {
	script, err := scripts.ReadFile("completion/" + shell)
	if err != nil {
		return nil, app.Usagef("no completion for %q (bash, zsh or fish)", shell)
	}
	return bytes.ReplaceAll(script, []byte("trellis"), []byte(program)), nil
}

// Words completes arguments and values of flags. Each candidate is a word, or a word with a tab and what it means.
type Words interface {
	// Value returns the values that a flag, by its first name, may take.
	Value(flag string, line *Line, last string) []string
	// Argument returns what the next argument of a command may be; [NextWord] returns what its help calls that.
	Argument(line *Line, last string) []string
}

// CompleteCommand is what the scripts call with the words so far, the last one unfinished. program is called when it runs.
func CompleteCommand(a *command.Console, program func() Program, w Words) *cli.Command {
	return &cli.Command{
		Name:            "__complete",
		Usage:           "print completions of the last word",
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			last := words[len(words)-1]
			for _, line := range candidates(program().root, w, words[:len(words)-1], last) {
				if strings.HasPrefix(line, last) {
					fmt.Fprintln(a.Stdout, line)
				}
			}
			return nil
		},
	}
}

// candidates returns the words that may follow those before, each with a tab and what it means.
func candidates(root *cli.Command, w Words, before []string, last string) []string {
	if list, ok := valueCandidates(root, w, before, last); ok {
		return list
	}
	line, err := Arrange(root, before)
	if err != nil { // an unknown word
		return nil
	}
	path := line.Path
	if line.Command != nil && line.Command.Name == "help" {
		path = line.Positional()
	}
	at := root
	for _, name := range path {
		if at = Find(at.Subcommands, name); at == nil {
			return nil
		}
	}
	switch {
	case strings.HasPrefix(last, "-"):
		return flagCandidates(at)
	case len(at.Subcommands) > 0:
		return commandCandidates(at)
	}
	line.Command = at
	if word := NextWord(line); strings.Contains(word, "|") && strings.ToLower(word) == word {
		return strings.Split(word, "|")
	}
	return w.Argument(line, last)
}

// NextWord returns the name of a command's next argument in its help, alternatives with bars between; "" if it takes no more.
func NextWord(line *Line) string {
	usage, at := line.Command.ArgsUsage, len(line.Positional())
	words := strings.Fields(usage)
	if strings.Contains(usage, "...") {
		at = min(at, len(words)-1)
	}
	if at >= len(words) {
		return ""
	}
	return strings.Trim(words[at], "[].|")
}

// valueCandidates returns what last may become if it is the value of a flag: the word after the
// flag, or joined to it with "=". Otherwise ok is false.
func valueCandidates(root *cli.Command, w Words, before []string, last string) (list []string, ok bool) {
	flag, prefix := "", ""
	if name, _, joined := strings.Cut(last, "="); joined && strings.HasPrefix(name, "--") {
		flag, prefix = name, name+"="
	} else if n := len(before); n > 0 && !strings.Contains(before[n-1], "=") {
		flag, before = before[n-1], before[:n-1]
	}
	if !strings.HasPrefix(flag, "-") {
		return nil, false
	}
	line, err := Arrange(root, before)
	if err != nil || line.Command == nil {
		return nil, false
	}
	known := FindFlag(line.Command.Flags, strings.TrimLeft(flag, "-"))
	if known == nil || !TakesValue(known) {
		return nil, false
	}
	for _, v := range w.Value(known.Names()[0], line, strings.TrimPrefix(last, prefix)) {
		list = append(list, prefix+v)
	}
	return list, true
}

func flagCandidates(at *cli.Command) []string {
	list := []string{"--help\tshow help"}
	for _, f := range at.Flags {
		_, usage, _ := strings.Cut(FlagLine(f), "\t")
		list = append(list, Dashed(f.Names()[0])+"\t"+usage)
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

// Tasks returns the names of the tasks, without the day where a name is unique, or their
// directories if last begins with a digit. It does not read the tasks.
func Tasks(a *command.Console, last string) []string {
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
