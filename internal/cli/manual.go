package cli

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/roff"
)

// Manual returns the pages of the manual by file name, one for trellis and one for each of its
// commands. They have the text of the help.
func Manual(version, day string) map[string]string {
	m := manual{edition: "trellis " + version, day: day, pages: map[string]string{}}
	m.add(nil, program(new(command.Console)).Root())
	return m.pages
}

type manual struct {
	edition, day string
	pages        map[string]string
}

// add adds the page of command c, which has that path, and those of its subcommands.
func (m *manual) add(path []string, c *cli.Command) {
	name := pageName(path)
	p := roff.NewPage(name, m.day, m.edition)
	p.Name(name, c.Usage)
	p.Section("Synopsis")
	p.Bold(commandline.UsageLine(commandline.FullCommand("trellis", path), c))
	text, examples, codes := command.SplitManual(c.Description)
	if len(path) == 0 {
		text = aboutTrellis
	}
	if text != "" {
		p.Section("Description")
		p.Text(text)
	}
	m.addCommands(p, path, c)
	addOptions(p, c.Flags)
	if len(codes) > 0 {
		p.Section("Exit status")
		for _, row := range codes {
			p.Item(row[0], row[1])
		}
	}
	if len(examples) > 0 {
		p.Section("Examples")
		p.Commands(examples)
	}
	p.Section("See also")
	p.Text(seeAlso(path))
	m.pages[name+".1"] = p.String()
}

func (m *manual) addCommands(p *roff.Page, path []string, c *cli.Command) {
	if len(c.Subcommands) > 0 {
		p.Section("Commands")
	}
	for _, sub := range c.Subcommands {
		if sub.Hidden {
			continue
		}
		below := append(path[:len(path):len(path)], sub.Name)
		p.Item(pageName(below)+"(1)", sub.Usage)
		m.add(below, sub)
	}
}

func addOptions(p *roff.Page, flags []cli.Flag) {
	p.Section("Options")
	for _, f := range flags {
		names, usage, _ := strings.Cut(commandline.FlagLine(f), "\t")
		p.Item(names, usage)
	}
	p.Item("--help, -h", "show this help")
}

// pageName returns the name of a command's page, such as trellis-task-create.
func pageName(path []string) string { return strings.Join(append([]string{"trellis"}, path...), "-") }

func seeAlso(path []string) string {
	if len(path) == 0 {
		return "https://github.com/trellis-tasks/trellis"
	}
	return pageName(path[:len(path)-1]) + "(1)"
}

const aboutTrellis = `Trellis turns a requirement into a reviewed git branch. You say what you want; a coding agent that you already have
plans it, writes it and checks it in a separate git worktree; the result is one commit on a branch, made only after your
project's own commands pass.

A task is a directory of plain files below .trellis/tasks: there is no server and no database. Start with "trellis demo",
which shows the whole workflow without a model, or with "trellis init" in your repository.`
