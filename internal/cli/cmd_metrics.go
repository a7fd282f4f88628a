package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func metricsCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "metrics",
		Usage: "print metrics of all tasks for Prometheus: states, runs, tokens, cost, checks",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Usage: "replace `FILE` atomically instead of printing, for node_exporter's textfile collector"},
		},
		Description: command.Manual(`Reads only from disk; nothing needs to be running, and the network is not used. A board serves the same at
/metrics. No task is named. docs/reference/metrics.md explains each metric and how to have them scraped.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitFailed}, "trellis metrics", "trellis metrics --output /var/lib/node_exporter/textfile/trellis.prom"),
		Action: a.ForProject(func(c *cli.Context, p *app.Project) error { return runMetrics(a, c, p) }),
	}
}

func runMetrics(a *command.Console, c *cli.Context, p *app.Project) error {
	collector := app.Metrics(p, command.Version())
	if !c.IsSet("output") {
		return collector.Write(a.Stdout)
	}
	var text bytes.Buffer
	if err := collector.Write(&text); err != nil {
		return err
	}
	return replaceTextfile(a, a.Path(c.String("output")), text.Bytes())
}

// replaceTextfile replaces a file that node_exporter reads. node_exporter reads every file whose
// name ends with .prom, even a hidden one, so the temporary file has another suffix.
func replaceTextfile(a *command.Console, path string, text []byte) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return app.Usagef("--output names a folder: %s", path)
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return app.WithHints(app.Usagef("--output names a file in a folder that is not there: %s", dir), "mkdir -p "+trellis.ShellWord(dir))
	}
	next := path + ".next"
	if err := a.Disk.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	if err := a.Disk.Rename(next, path); err != nil {
		return errors.Join(fmt.Errorf("replacing %s: %w", path, err), os.Remove(next))
	}
	return nil
}
