package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// commandLine is a command line as the flag parser wants it.
type commandLine struct {
	path    []string     // the names of the command
	command *cli.Command // nil: none was named
	args    []string     // path, flags, "--", arguments
	help    bool         // --help was among the flags
	version bool         // --version was among the flags of trellis itself
}

// arrange reads args along the command tree and puts flags before arguments: the flag parser takes
// what follows the first argument for arguments, whatever it looks like. After "--" nothing is a flag.
// Unknown commands and flags are usage errors with the nearest known name.
func arrange(root *cli.Command, args []string) (*commandLine, error) {
	line, at := &commandLine{}, root
	var positional []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case at.SkipFlagParsing:
			return line.end(args[i:]), nil
		case arg == "--" && len(at.Subcommands) > 0:
			return nil, app.WithHints(app.Usagef("%s needs a command before --", whole(line.path)), helpFor(line.path))
		case arg == "--":
			return line.end(append(positional, args[i+1:]...)), nil
		case strings.HasPrefix(arg, "-") && arg != "-":
			used, err := line.flag(at, args[i:])
			if err != nil {
				return nil, err
			}
			i += used - 1
		case len(at.Subcommands) > 0:
			next := find(at.Subcommands, arg)
			if next == nil {
				return nil, unknownCommand(at, line.path, arg)
			}
			line.path, line.args = append(line.path, next.Name), append(line.args, next.Name)
			line.command, at = next, next
		default:
			positional = append(positional, arg)
		}
	}
	return line.end(positional), nil
}

// flag takes the flag that rest begins with, and its value, and returns how many words that were. It is
// passed on by its first name: the parser refuses two names of one flag.
func (l *commandLine) flag(at *cli.Command, rest []string) (int, error) {
	name, value, assigned := strings.Cut(strings.TrimLeft(rest[0], "-"), "=")
	if name == "help" || name == "h" {
		l.help = true
		return 1, nil
	}
	known := findFlag(at.Flags, name)
	if known == nil {
		return 0, unknownFlag(at, l.path, rest[0])
	}
	first := dashed(known.Names()[0])
	l.version = l.version || l.command == nil && first == "--version"
	if !takesValue(known) && !assigned {
		l.args = append(l.args, first)
		return 1, nil
	}
	words := 1
	if !assigned {
		if len(rest) < 2 {
			return 0, app.Usagef("flag %s needs a value", rest[0])
		}
		value, words = rest[1], 2
	}
	if _, err := time.ParseDuration(value); err != nil && isDuration(known) {
		return 0, app.Usagef("%s needs a unit, e.g. 5s", first)
	}
	l.args = append(l.args, first+"="+value)
	return words, nil
}

func (l *commandLine) end(positional []string) *commandLine {
	if len(positional) > 0 && (l.command == nil || !l.command.SkipFlagParsing) {
		l.args = append(l.args, "--")
	}
	l.args = append(l.args, positional...)
	return l
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func isDuration(f cli.Flag) bool {
	_, ok := f.(*cli.DurationFlag)
	return ok
}

func unknownCommand(at *cli.Command, path []string, name string) error {
	var names []string
	for _, c := range at.Subcommands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	err := app.Usagef("%s has no command %q", whole(path), name)
	if near := trellis.Nearest(name, names); near != "" {
		return app.WithHints(err, "did you mean: "+whole(path)+" "+near)
	}
	return app.WithHints(err, helpFor(path))
}

func unknownFlag(at *cli.Command, path []string, word string) error {
	names := []string{"--help"}
	for _, f := range at.Flags {
		for _, n := range f.Names() {
			names = append(names, dashed(n))
		}
	}
	word, _, _ = strings.Cut(word, "=")
	err := app.Usagef("%s has no flag %s", whole(path), word)
	if near := trellis.Nearest(dashed(strings.TrimLeft(word, "-")), names); near != "" {
		return app.WithHints(err, "did you mean: "+near)
	}
	return app.WithHints(err, helpFor(path))
}

func whole(path []string) string { return strings.Join(append([]string{"trellis"}, path...), " ") }

func helpFor(path []string) string {
	return strings.TrimSpace("trellis help " + strings.Join(path, " "))
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
