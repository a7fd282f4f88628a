package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
)

// JSONFlag returns --json, for every command with results for scripts.
func JSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print one JSON document"} }

// PlainFlag returns --plain, for commands that show what happens while it happens.
func PlainFlag() cli.Flag {
	return &cli.BoolFlag{Name: "plain", Usage: "print one line with its time per event, even on a terminal"}
}

// SharedFlag returns --shared-fs, for commands that hold locks while they work.
func SharedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "shared-fs", Usage: "allow NFS, SMB, FUSE or 9p: you ensure that no other machine works there"}
}

// GivenFlags returns the flags among names that a call sets, as arguments for another call.
func GivenFlags(c *cli.Context, names ...string) (args []string) {
	for _, name := range names {
		switch value := c.Value(name).(type) {
		case bool:
			if value {
				args = append(args, "--"+name)
			}
		case cli.StringSlice:
			for _, one := range value.Value() {
				args = append(args, "--"+name, one)
			}
		default:
			if c.IsSet(name) {
				args = append(args, "--"+name, fmt.Sprint(value))
			}
		}
	}
	return args
}

// CheckArguments returns a usage error for a call with more or fewer arguments than the command's help names.
func CheckArguments(c *cli.Context) error {
	least, most := argumentRange(c.Command.ArgsUsage)
	switch n := c.NArg(); {
	case n > most:
		hint := helpHint(c)
		if strings.HasPrefix(c.Command.ArgsUsage, "[TEXT") {
			hint = "put the text between quotes: " + c.Command.HelpName + " 'a text of several words'"
		}
		return app.WithHints(app.Usagef("unexpected argument %q", c.Args().Get(most)), hint)
	case n < least:
		return MissingArgument(c)
	}
	return nil
}

// argumentRange returns how many arguments a command takes by its ArgsUsage: those in brackets are optional, dots stand for
// any number, a bar between spaces separates two ways to call it, and the word after a flag is its value.
func argumentRange(usage string) (least, most int) {
	least = math.MaxInt
	for way := range strings.SplitSeq(usage, " | ") {
		needed, more := 0, 0
		words := strings.Fields(way)
		for i, word := range words {
			switch {
			case strings.HasPrefix(word, "--"):
			case strings.Contains(word, "..."):
				more = math.MaxInt / 2
			case strings.HasPrefix(word, "["):
				more++
			case i == 0 || !strings.HasPrefix(words[i-1], "--"):
				needed++
			}
		}
		least, most = min(least, needed), max(most, needed+more)
	}
	return least, most
}

// MissingArgument returns a usage error that shows the arguments of the command.
func MissingArgument(c *cli.Context) error {
	return app.WithHints(app.Usagef("missing argument: %s", strings.TrimSpace(c.Command.HelpName+" "+c.Command.ArgsUsage)), helpHint(c))
}

func helpHint(c *cli.Context) string {
	program, path, _ := strings.Cut(c.Command.HelpName, " ")
	return strings.TrimSpace(program + " help " + path)
}

// Manual returns the written part of a command's help. A command with ExitInterrupted also has ExitTerminated, for SIGTERM.
func Manual(text string, codes []int, examples ...string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(text))
	b.WriteString("\n\nExamples:\n")
	for _, e := range examples {
		b.WriteString("  " + e + "\n")
	}
	b.WriteString("\nExit codes:")
	for _, row := range Exits {
		if slices.Contains(codes, row.Code) || row.Code == ExitTerminated && slices.Contains(codes, ExitInterrupted) {
			b.WriteString("\n  " + strconv.Itoa(row.Code) + strings.Repeat(" ", 5-len(strconv.Itoa(row.Code))) + row.Meaning)
		}
	}
	return b.String()
}

// SplitManual splits what Manual returned into the text, the examples, and the exit codes with their meanings.
func SplitManual(description string) (text string, examples []string, codes [][2]string) {
	rest, exits, _ := strings.Cut(description, "\nExit codes:\n")
	text, shown, _ := strings.Cut(rest, "\n\nExamples:\n")
	for line := range strings.Lines(shown) {
		if line = strings.TrimSpace(line); line != "" {
			examples = append(examples, line)
		}
	}
	for line := range strings.Lines(exits) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		codes = append(codes, [2]string{code, strings.TrimSpace(meaning)})
	}
	return text, examples, codes
}
