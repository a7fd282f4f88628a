package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
)

func testTree() *cli.Command {
	return &cli.Command{
		Flags: []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}}},
		Subcommands: []*cli.Command{
			{Name: "plan", Flags: []cli.Flag{
				&cli.StringFlag{Name: "requirement", Aliases: []string{"r"}},
				&cli.BoolFlag{Name: "detach"},
				&cli.IntFlag{Name: "round"},
			}},
			{Name: "task", Subcommands: []*cli.Command{{Name: "create"}, {Name: "archive"}}},
			{Name: "raw", SkipFlagParsing: true},
		},
	}
}

func TestArrange(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"plan a -r x", "plan --requirement=x -- a"},
		{"plan -r x a b --detach", "plan --requirement=x --detach -- a b"},
		{"plan a --requirement=-x b", "plan --requirement=-x -- a b"},
		{"plan a -r --detach", "plan --requirement=--detach -- a"},
		{"plan a -r --", "plan --requirement=-- -- a"},
		{"plan a -- -r x --detach", "plan -- a -r x --detach"},
		{"plan -r a=b --r -c", "plan --requirement=a=b --requirement=-c"},
		{"plan -", "plan -- -"},
		{"plan --detach=false a", "plan --detach=false -- a"},
		{"task create plan", "task create -- plan"},
		{"raw plan --x -- -h", "raw plan --x -- -h"},
		{"plan", "plan"},
		{"--version", "--version"},
	} {
		line, err := arrange(testTree(), strings.Fields(test.args))
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
		} else if got := strings.Join(line.args, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.args, got, test.want)
		}
	}
}

func TestArrangeHelp(t *testing.T) {
	for _, args := range []string{"task create -h", "task --help create", "--help task create x", "task create x y --help"} {
		line, err := arrange(testTree(), strings.Fields(args))
		if err != nil || !line.help || !slices.Equal(line.path, []string{"task", "create"}) {
			t.Errorf("%s: got %+v, %v, want the help of task create", args, line, err)
		}
	}
	if line, err := arrange(testTree(), []string{"plan", "--", "--help"}); err != nil || line.help {
		t.Errorf("a --help after --: got %+v, %v, want an argument", line, err)
	}
}

func TestArrangeRefuses(t *testing.T) {
	for _, test := range []struct{ args, want, hint string }{
		{"paln", `trellis has no command "paln"`, "did you mean: trellis plan"},
		{"task craete", `trellis task has no command "craete"`, "did you mean: trellis task create"},
		{"zzzzzzzz", `trellis has no command "zzzzzzzz"`, "trellis help"},
		{"-- plan", "trellis needs a command before --", "trellis help"},
		{"plan a --requirment=x", "trellis plan has no flag --requirment", "did you mean: --requirement"},
		{"plan --qqqqqqqq", "trellis plan has no flag --qqqqqqqq", "trellis help plan"},
		{"plan a -x", "trellis plan has no flag -x", "did you mean: -r"},
		{"--detach plan", "trellis has no flag --detach", "trellis help"},
		{"plan a -r", "flag -r needs a value", ""},
	} {
		_, err := arrange(testTree(), strings.Fields(test.args))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.args, err, test.want)
			continue
		}
		if got := command.ExitCode(err); got != command.ExitUsage {
			t.Errorf("%s: got exit code %d, want %d", test.args, got, command.ExitUsage)
		}
		if got := strings.Join(app.HintsOf(err), "\n"); got != test.hint {
			t.Errorf("%s: got hint %q, want %q", test.args, got, test.hint)
		}
	}
}

// How many arguments a command takes is what its help says.
func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"list x":                      `unexpected argument "x"`,
		"start":                       "missing argument: trellis start TASKDIR",
		"start a b":                   `unexpected argument "b"`,
		"validate a b":                `unexpected argument "b"`,
		"run a b":                     `unexpected argument "b"`,
		"verify":                      "missing argument: trellis verify TASKDIR | ID",
		"task add-context a b":        "missing argument: trellis task add-context TASKDIR implement|check|debug PATH [REASON]",
		"task add-context a b c d e":  `unexpected argument "e"`,
		"completion":                  "missing argument: trellis completion bash|zsh|fish|install [bash|zsh|fish]",
		"watch --rescan 5":            "--rescan needs a unit, e.g. 5s",
		"task set-branch a":           "missing argument: trellis task set-branch TASKDIR BRANCH",
		"objective check a b --x":     "trellis objective check has no flag --x",
		"help failures what":          `trellis has no command "failures"`,
		"objective reconcile --step=": "trellis objective reconcile has no flag --step",
	} {
		var said bytes.Buffer
		a := &console{Console: command.Console{Stdout: &said, Stderr: &said, Dir: t.TempDir(), Now: time.Now}}
		code := a.Run(t.Context(), strings.Fields(args))
		if first, _, _ := strings.Cut(said.String(), "\n"); code != command.ExitUsage || first != "trellis: "+want {
			t.Errorf("%s: got %d and %s, want %s", args, code, &said, want)
		}
	}
}
