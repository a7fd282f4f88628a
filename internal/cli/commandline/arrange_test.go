package commandline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

func testTree() *cli.Command {
	return &cli.Command{
		Name:  "trellis",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}}},
		Subcommands: []*cli.Command{
			{Name: "plan", Flags: []cli.Flag{
				&cli.StringFlag{Name: "requirement", Aliases: []string{"r"}},
				&cli.BoolFlag{Name: "detach"},
				&cli.IntFlag{Name: "round"},
				&cli.StringSliceFlag{Name: "constraint"},
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
		line, err := commandline.Arrange(testTree(), strings.Fields(test.args))
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
		} else if got := strings.Join(line.Args, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.args, got, test.want)
		}
	}
}

func TestArrangeHelp(t *testing.T) {
	for _, args := range []string{"task create -h", "task --help create", "--help task create x", "task create x y --help"} {
		line, err := commandline.Arrange(testTree(), strings.Fields(args))
		if err != nil || !line.Help || !slices.Equal(line.Path, []string{"task", "create"}) {
			t.Errorf("%s: got %+v, %v, want the help of task create", args, line, err)
		}
	}
	if line, err := commandline.Arrange(testTree(), []string{"plan", "--", "--help"}); err != nil || line.Help {
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
		{"plan a --round ten", `--round is a whole number, not "ten"`, "trellis help plan"},
		{"plan a --detach=maybe", `--detach is true or false, not "maybe"`, "trellis help plan"},
		{"plan a -r", "flag -r needs a value", "trellis help plan"},
	} {
		_, err := commandline.Arrange(testTree(), strings.Fields(test.args))
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

// An empty value, such as of an unset variable in a script, is refused, and does not count as leaving out the flag.
func TestArrangeRefusesBlankValues(t *testing.T) {
	for _, args := range [][]string{{"plan", "-r", ""}, {"plan", "a", "--requirement="}, {"plan", "--requirement", " \t"}, {"plan", "--constraint", "a", "--constraint", ""}} {
		_, err := commandline.Arrange(testTree(), args)
		if err == nil || !strings.HasSuffix(err.Error(), " is blank: give it a value, or leave it out") || command.ExitCode(err) != command.ExitUsage {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
