package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/mcpclients"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func mcpInstallCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Usage:     "add the MCP server to claude, codex or opencode",
		ArgsUsage: "claude|codex|opencode",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: string(mcpserver.Work), Usage: "tools to offer there: `LEVEL` read, work or all"},
			&cli.BoolFlag{Name: "undo", Usage: "remove it again"},
			&cli.BoolFlag{Name: "yes", Usage: "do it without asking"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Shows what goes into the program's settings (yours, for all projects), and writes it if you agree.
--undo restores them byte for byte; if they were changed since, it removes only the entry.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting}, "trellis mcp install claude", "trellis mcp install opencode --tools read", "trellis mcp install codex --undo --yes"),
		Action: func(c *cli.Context) error { return runMCPInstall(a, c) },
	}
}

// installResult is the result of the command, as --json prints it.
type installResult struct {
	Program string `json:"program"`
	File    string `json:"file"`   // the program's settings
	Did     string `json:"did"`    // added, removed or nothing; would-add or would-remove if nobody agreed
	Text    string `json:"text"`   // the text that is added or removed
	Edited  bool   `json:"edited"` // others changed the settings since the server was added
	// Elsewhere lists other servers of the same name that the program finds when it is started in this directory.
	Elsewhere []mcpclients.Other `json:"elsewhere"`
}

func runMCPInstall(a *command.Console, c *cli.Context) error {
	if err := a.RequirePerson("change the settings of agents"); err != nil {
		return err
	}
	level, err := mcpserver.ParseLevel(c.String("tools"))
	if err != nil {
		return err
	}
	entry, err := a.Caller().MCPClient(c.Args().First())
	if err != nil {
		return err
	}
	i := &installer{a, c, level, entry, installResult{Program: entry.Name, File: entry.File, Did: "nothing", Elsewhere: a.Caller().MCPElsewhere(entry)}}
	i.sayElsewhere()
	if c.Bool("undo") {
		err = i.remove()
	} else {
		err = i.add()
	}
	if c.Bool("json") && (err == nil || app.KindOf(err) == app.ErrWaiting) {
		return errors.Join(a.Print(true, i.result, nil), err)
	}
	return err
}

// installer is one call of mcp install.
type installer struct {
	console *command.Console
	call    *cli.Context
	level   mcpserver.Level
	entry   mcpclients.Entry
	result  installResult
}

func (i *installer) add() error {
	self, err := serverCommand(i.console)
	if err != nil {
		return err
	}
	if i.level != mcpserver.Work { // the default
		self = append(self, "--tools", string(i.level))
	}
	change, err := i.entry.PreviewAdd(self)
	if err != nil {
		return i.settingsError(err)
	}
	if change.There {
		i.say("%s has the server already, and stays as it is; next: trellis mcp install %s --undo", i.entry.File, trellis.ShellWord(i.entry.Name))
		return nil
	}
	if agreed, err := i.confirm("would-add", "gets", change, "put it there?"); err != nil || !agreed {
		return err
	}
	if change, err = i.entry.Add(self); err != nil {
		return i.settingsError(err)
	}
	i.result.Did, i.result.Text = "added", change.Text
	i.say("%s starts the server from its next session on; next: trellis mcp install %[1]s --undo takes it out", i.entry.Name)
	return nil
}

func (i *installer) remove() error {
	change, err := i.entry.PreviewRemove()
	if err != nil {
		return i.settingsError(err)
	}
	if !change.There {
		i.say("%s does not have the server", i.entry.File)
		return nil
	}
	if agreed, err := i.confirm("would-remove", "loses", change, "take it out?"); err != nil || !agreed {
		return err
	}
	if change, err = i.entry.Remove(); err != nil {
		return i.settingsError(err)
	}
	i.result.Did, i.result.Text, i.result.Edited = "removed", change.Text, change.Edited
	switch {
	case change.Gone:
		i.say("%s is gone, as before", i.entry.File)
	case change.Edited:
		i.say("%s was changed since the server was put in: the entry alone is taken out", i.entry.File)
	default:
		i.say("%s is as it was before", i.entry.File)
	}
	return nil
}

// settingsError returns err, for settings that can't be edited, as a usage error with a hint.
func (i *installer) settingsError(err error) error {
	return app.WithHints(app.AsKind(app.ErrUsage, err), "fix it, then trellis mcp install "+trellis.ShellWord(i.entry.Name))
}

// confirm shows the change and asks a person to agree. If it has to ask and nobody is there, it returns an ErrWaiting error.
func (i *installer) confirm(would, verb string, change mcpclients.Change, question string) (bool, error) {
	i.result.Did, i.result.Text, i.result.Edited = would, change.Text, change.Edited
	if !i.call.Bool("json") {
		fmt.Fprintf(i.console.Stdout, "%s %s:\n%s\n", trellis.Visible(i.entry.File), verb, trellis.Visible(strings.Trim(change.Text, "\r\n")))
	}
	if i.call.Bool("yes") {
		return true, nil
	}
	if i.call.Bool("json") || !i.console.CanAsk() {
		next := strings.Join(append([]string{"trellis mcp install", i.entry.Name}, command.GivenFlags(i.call, "tools", "undo", "json")...), " ") + " --yes"
		return false, app.WithHints(app.AsKind(app.ErrWaiting, errors.New("there is no terminal to ask on: nothing is changed")), next)
	}
	return i.console.Confirm(question)
}

// say prints a message unless --json is given.
func (i *installer) say(format string, args ...any) {
	if !i.call.Bool("json") {
		i.console.Say(format, args...)
	}
}

// sayElsewhere prints the other servers of the same name that the program finds, and when it starts which of them.
func (i *installer) sayElsewhere() {
	for _, o := range i.result.Elsewhere {
		which, next := "instead of the one for all projects", "take it out there by hand, where that is not wanted"
		switch {
		case !o.TakesPrecedence:
			which = "while " + i.entry.File + " has none"
		case o.Project != "":
			which += ", in " + o.Project
		}
		if o.Remove != "" {
			next = o.Remove
		}
		i.say("%s has a server called trellis in %s too, which it starts %s; next: %s", i.entry.Name, trellis.Visible(o.File), trellis.Visible(which), next)
	}
}

// serverCommand returns the command that starts the server: by name if PATH finds this program so, to start newer versions too.
func serverCommand(a *command.Console) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if path, err := proc.LookPath("trellis", a.Env); err == nil {
		named, err := os.Stat(path)
		own, ownErr := os.Stat(self)
		if err == nil && ownErr == nil && os.SameFile(named, own) { // otherwise PATH finds another trellis first
			return []string{"trellis", "mcp"}, nil
		}
	}
	return []string{self, "mcp"}, nil
}
