package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// leaves returns the commands that do something, by their path.
func leaves(commands []*cli.Command, path string) map[string]*cli.Command {
	found := map[string]*cli.Command{}
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		name := strings.TrimSpace(path + " " + c.Name)
		if len(c.Subcommands) == 0 || c.Action != nil {
			found[name] = c
		}
		for k, v := range leaves(c.Subcommands, name) {
			found[k] = v
		}
	}
	return found
}

func TestHelpIsWhole(t *testing.T) {
	a := &console{Console: command.Console{Stdout: io.Discard, Stderr: io.Discard}}
	for name, c := range leaves(commands(&a.Console), "") {
		for _, part := range []string{"\n\nExamples:\n  trellis " + name, "\n\nExit codes:\n  0    done\n"} {
			if !strings.Contains(c.Description, part) {
				t.Errorf("the help of %s lacks %q", name, part)
			}
		}
		if c.Usage == "" || strings.ToLower(c.Usage[:1]) != c.Usage[:1] || strings.HasSuffix(c.Usage, ".") {
			t.Errorf("%s: usage %q is not a lower-case phrase", name, c.Usage)
		}
		for _, f := range c.Flags {
			if d := f.(cli.DocGenerationFlag); d.GetUsage() == "" {
				t.Errorf("%s: flag %s says nothing", name, f.Names()[0])
			}
		}
	}
}
