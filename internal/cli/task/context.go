package task

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// contextCommands returns the commands that write and show context files, which name what agents read.
func (cmd tasks) contextCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name:      "init-context",
			Usage:     "fill the context files with what every task of a type reads",
			ArgsUsage: "TASKDIR backend|frontend|fullstack|test|docs",
			Description: command.Manual(`Adds the workflow and the guidelines for that type to implement.jsonl, check.jsonl and debug.jsonl.
Existing entries are kept. The type is stored as the task's dev_type.`,
				[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis task init-context 02-01-auth backend"),
			Action: cmd.ForTask(cmd.initContext),
		},
		{
			Name:      "add-context",
			Usage:     "add a file or a folder to a context file",
			ArgsUsage: "TASKDIR implement|check|debug PATH [REASON]",
			Description: command.Manual(`PATH is relative to the top of the repository. One that does not exist, leaves the repository or is
not text is not added. A context file of another name is created too, with a warning that no phase reads it.`,
				[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, `trellis task add-context 02-01-auth implement internal/auth/ "the code to extend"`),
			Action: cmd.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
				return cmd.addContext(p, dir, c.Args().Get(1), c.Args().Get(2), c.Args().Get(3))
			}),
		},
		{
			Name:        "list-context",
			Usage:       "list the entries of the context files",
			ArgsUsage:   "TASKDIR",
			Flags:       []cli.Flag{command.JSONFlag()},
			Description: command.Manual(`Shows every entry with its reason; unusable entries are marked with the cause.`, []int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis task list-context 02-01-auth"),
			Action:      cmd.ForTask(cmd.listContext),
		},
	}
}

func (cmd tasks) initContext(c *cli.Context, p *app.Project, dir string) error {
	kind := c.Args().Get(1)
	if err := command.CheckDevType(kind, "the type"); err != nil {
		return err
	}
	t, err := p.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.KeepRevision()
		e.Set("dev_type", kind)
		return nil
	})
	if err != nil {
		return err
	}
	base, err := specs.Base(p.Root, kind, t.Package, nil)
	if err != nil {
		return err
	}
	var empty []string
	for _, name := range phaseFiles() {
		added, held := 0, 0
		err := p.ChangeContext(dir, name, func(data []byte) ([]byte, error) {
			added, held = 0, len(bytes.TrimSpace(data))
			for _, b := range base {
				next, err := contextfiles.Add(data, contextfiles.Row{Path: b.Path, Reason: b.Reason})
				if errors.Is(err, contextfiles.ErrDuplicate) {
					continue
				}
				if err != nil {
					return nil, err
				}
				data, added = next, added+1
			}
			return data, nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.Stdout, "%s: %d added\n", p.Store.Rel(filepath.Join(dir, name)), added)
		if added+held == 0 {
			empty = append(empty, name)
		}
	}
	if len(empty) > 0 {
		cmd.Say("there are no guidelines for %s, no README and no build file that every task reads; name what shows how things are done here", kind)
		for _, name := range empty {
			cmd.Say("next: trellis task add-context %s %s PATH REASON", trellis.ShellWord(t.ID), strings.TrimSuffix(name, ".jsonl"))
		}
	}
	return nil
}

// phaseFiles returns the context files that a phase reads.
func phaseFiles() []string {
	return []string{taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext}
}

func (cmd tasks) addContext(p *app.Project, dir, file, path, reason string) error {
	name := strings.TrimSuffix(file, ".jsonl") + ".jsonl"
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || name == taskdir.Approvals || name == taskdir.Proofs {
		return app.Usagef("%q is not a context file (implement, check, debug)", file)
	}
	if near := contextfiles.LikelyContextFile(name); near != "" {
		return app.WithHints(app.Usagef("no phase reads %s", name), "did you mean: "+strings.TrimSuffix(near, ".jsonl"))
	}
	if read := phaseFiles(); !slices.Contains(read, name) { // other files are allowed, for people and other tools
		cmd.Say("no phase reads %s: those that are read are %s, %s and %s", name, read[0], read[1], read[2])
	}
	row := contextfiles.Row{Path: path, Reason: reason, Type: contextfiles.File}
	if st, err := os.Stat(filepath.Join(p.Root, path)); err == nil && st.IsDir() {
		row.Type = contextfiles.Directory
	}
	valid, problems := contextfiles.Checker{Root: p.Root}.Check(name, []contextfiles.Row{row})
	next := "trellis help task add-context"
	for _, problem := range problems {
		cmd.Say("%s: %s", path, problem.Message)
		if !problem.Warning && problem.Hint != "" {
			next = problem.Hint
		}
	}
	top, err := filepath.Rel(p.Root, cmd.Path(path)) // path may be meant from the current folder
	if _, missing := os.Stat(cmd.Path(path)); err == nil && missing == nil && filepath.IsLocal(top) && top != filepath.Clean(path) {
		next = "trellis task add-context " + trellis.ShellWord(filepath.Base(dir)) + " " + trellis.ShellWord(file) + " " + trellis.ShellWord(top)
	}
	if len(valid) == 0 {
		return app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("nothing was added to %s", name)), next)
	}
	err = p.ChangeContext(dir, name, func(data []byte) ([]byte, error) { return contextfiles.Add(data, valid[0]) })
	if errors.Is(err, contextfiles.ErrDuplicate) {
		cmd.Say("%v", err)
		return nil
	}
	return err
}

// contextEntry is an entry of a context file, the object of list-context --json.
type contextEntry struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Path    string `json:"path"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Problem string `json:"problem"` // why it can't be used, "" if it can
}

func (cmd tasks) listContext(c *cli.Context, p *app.Project, dir string) error {
	if _, err := p.Store.Load(dir); err != nil {
		return err
	}
	entries, err := contextEntries(p, dir)
	if err != nil {
		return err
	}
	return cmd.Print(c.Bool("json"), entries, func() error { return cmd.printContext(entries) })
}

func (cmd tasks) printContext(entries []contextEntry) error {
	last := ""
	for _, e := range entries {
		if e.File != last {
			fmt.Fprintln(cmd.Stdout, e.File)
			last = e.File
		}
		line := "  " + e.Path
		if e.Reason != "" {
			line += "  " + e.Reason
		}
		if e.Problem != "" {
			line += "  ✗ " + e.Problem
		}
		fmt.Fprintln(cmd.Stdout, trellis.Visible(line))
	}
	return nil
}

func contextEntries(p *app.Project, dir string) ([]contextEntry, error) {
	names, err := taskdir.ContextFiles(dir)
	if err != nil {
		return nil, err
	}
	entries := []contextEntry{}
	for _, name := range names {
		data, err := taskdir.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		rows, problems := contextfiles.Parse(name, data)
		_, found := contextfiles.Checker{Root: p.Root}.Check(name, rows)
		wrong := map[int]string{}
		for _, problem := range append(problems, found...) {
			if !problem.Warning {
				wrong[problem.Line] = problem.Message
			}
		}
		for _, r := range rows {
			entries = append(entries, contextEntry{name, r.Line, r.Path, r.Type, r.Reason, wrong[r.Line]})
		}
		for _, problem := range problems {
			entries = append(entries, contextEntry{File: name, Line: problem.Line, Problem: problem.Message})
		}
	}
	return entries, nil
}
