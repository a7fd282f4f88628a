package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

// versionReport is what `trellis version --json` prints.
type versionReport struct {
	command.Build
	Agents []agents.Program `json:"agents"` // those that are on PATH
}

func versionCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "show the version of trellis, and the agent programs it finds",
		Flags: []cli.Flag{command.JSONFlag()},
		Description: command.Manual(`Shows the version, commit and date stamped into this binary, the Go version that built it, and the agent
programs on PATH with the versions that they report. Include it in bug reports. To print only the first
line, use "trellis --version".`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis version", "trellis version --json | jq -r .commit"),
		Action: func(c *cli.Context) error {
			report := versionReport{command.ReadBuild(), agents.Installed(c.Context, agents.Options{Environ: a.Env, Root: a.Dir})}
			return a.Print(c.Bool("json"), report, func() error { return report.print(a.Stdout) })
		},
	}
}

func (r versionReport) print(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "trellis", r.Version); err != nil {
		return err
	}
	var rows [][]string
	add := func(name, value string) { rows = append(rows, []string{"  " + name, value}) }
	if r.Commit != "" {
		changed := ""
		if r.Modified {
			changed = ", with changes that are not committed"
		}
		add("commit", r.Commit+changed)
		add("date", r.Date)
	}
	add("go", r.Go+" "+r.OS+"/"+r.Arch)
	for _, p := range r.Agents {
		version := cmp.Or(p.Version, "version unknown")
		add(p.Name, version+" "+p.Path)
	}
	return terminal.Grid{Rows: rows}.Print(w, terminal.Style{})
}
