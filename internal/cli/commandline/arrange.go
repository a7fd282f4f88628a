package commandline

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Line is a command line in the order that the flag parser needs.
type Line struct {
	Program string       // its name
	Path    []string     // the names of the command
	Command *cli.Command // nil: no command was named
	Args    []string     // path, flags, "--", arguments
	Help    bool         // --help was among the flags
	Version bool         // --version was among the flags of the program itself
}

// Arrange reads args, without the program's name, along the command tree and puts flags before arguments: the flag parser takes
// what follows the first argument for arguments, whatever it looks like. After "--" nothing is a flag.
// Unknown commands and flags are usage errors with the nearest known name.
func Arrange(root *cli.Command, args []string) (*Line, error) {
	line, at := &Line{Program: root.Name}, root
	var positional []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case at.SkipFlagParsing:
			return line.addArguments(args[i:]), nil
		case arg == "--" && len(at.Subcommands) > 0:
			return nil, app.WithHints(app.Usagef("%s needs a command before --", line.fullName()), line.helpCommand())
		case arg == "--":
			return line.addArguments(append(positional, args[i+1:]...)), nil
		case strings.HasPrefix(arg, "-") && arg != "-":
			used, err := line.flag(at, args[i:])
			if err != nil {
				return nil, err
			}
			i += used - 1
		case len(at.Subcommands) > 0:
			next := Find(at.Subcommands, arg)
			if next == nil {
				return nil, line.unknownCommand(at, arg)
			}
			line.Path, line.Args = append(line.Path, next.Name), append(line.Args, next.Name)
			line.Command, at = next, next
		default:
			positional = append(positional, arg)
		}
	}
	return line.addArguments(positional), nil
}

// flag parses the flag that rest begins with, and its value, and returns how many words they take.
// It passes the flag on by its first name, as the parser refuses two names of one flag.
func (l *Line) flag(at *cli.Command, rest []string) (int, error) {
	name, value, assigned := strings.Cut(strings.TrimLeft(rest[0], "-"), "=")
	if name == "help" || name == "h" {
		l.Help = true
		return 1, nil
	}
	known := FindFlag(at.Flags, name)
	if known == nil {
		return 0, l.unknownFlag(at, rest[0])
	}
	first := Dashed(known.Names()[0])
	l.Version = l.Version || l.Command == nil && first == "--version"
	if !TakesValue(known) && !assigned {
		l.Args = append(l.Args, first)
		return 1, nil
	}
	words := 1
	if !assigned {
		if len(rest) < 2 {
			return 0, app.WithHints(app.Usagef("flag %s needs a value", rest[0]), l.helpCommand())
		}
		value, words = rest[1], 2
	}
	if err := valueError(known, value); err != nil {
		return 0, app.WithHints(err, l.helpCommand())
	}
	l.Args = append(l.Args, first+"="+value)
	return words, nil
}

func (l *Line) addArguments(positional []string) *Line {
	if len(positional) > 0 && (l.Command == nil || !l.Command.SkipFlagParsing) {
		l.Args = append(l.Args, "--")
	}
	l.Args = append(l.Args, positional...)
	return l
}

// Find returns the command of that name, or nil if there is none.
func Find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// FindFlag returns the flag of that name, without dashes, or nil if there is none.
func FindFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// TakesValue reports whether a flag is followed by a value.
func TakesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// valueError returns a usage error if a flag can't have that value, and nil otherwise.
func valueError(f cli.Flag, value string) error {
	name := Dashed(f.Names()[0])
	switch f.(type) {
	case *cli.StringFlag, *cli.StringSliceFlag:
		if strings.TrimSpace(value) == "" { // an empty variable does not ask for the default
			return app.Usagef("%s is blank: give it a value, or leave it out", name)
		}
	case *cli.DurationFlag:
		if _, err := time.ParseDuration(value); err != nil {
			return app.Usagef("%s needs a unit, e.g. 5s", name)
		}
	case *cli.IntFlag:
		if _, err := strconv.ParseInt(value, 0, 0); err != nil {
			return app.Usagef("%s is a whole number, not %q", name, value)
		}
	case *cli.Float64Flag:
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return app.Usagef("%s is a number, not %q", name, value)
		}
	case *cli.BoolFlag:
		if _, err := strconv.ParseBool(value); err != nil {
			return app.Usagef("%s is true or false, not %q", name, value)
		}
	}
	return nil
}

func (l *Line) unknownCommand(at *cli.Command, name string) error {
	var names []string
	for _, c := range at.Subcommands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	err := app.Usagef("%s has no command %q", l.fullName(), name)
	if near := trellis.Nearest(name, names); near != "" {
		return app.WithHints(err, "did you mean: "+l.fullName()+" "+near)
	}
	return app.WithHints(err, l.helpCommand())
}

func (l *Line) unknownFlag(at *cli.Command, word string) error {
	names := []string{"--help"}
	for _, f := range at.Flags {
		for _, n := range f.Names() {
			names = append(names, Dashed(n))
		}
	}
	word, _, _ = strings.Cut(word, "=")
	err := app.Usagef("%s has no flag %s", l.fullName(), word)
	if near := trellis.Nearest(Dashed(strings.TrimLeft(word, "-")), names); near != "" {
		return app.WithHints(err, "did you mean: "+near)
	}
	return app.WithHints(err, l.helpCommand())
}

// Positional returns the arguments that are not flags.
func (l *Line) Positional() []string {
	rest := l.Args[len(l.Path):]
	if l.Command != nil && l.Command.SkipFlagParsing {
		return rest
	}
	if n := slices.Index(rest, "--"); n >= 0 {
		return rest[n+1:]
	}
	return nil
}

func (l *Line) fullName() string { return FullCommand(l.Program, l.Path) }

func (l *Line) helpCommand() string {
	return FullCommand(l.Program, append([]string{"help"}, l.Path...))
}

// FullCommand returns the command with that path as it is typed.
func FullCommand(program string, path []string) string {
	return strings.Join(append([]string{program}, path...), " ")
}

// Dashed returns the name of a flag as it is typed.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
