package main

import "github.com/urfave/cli/v2"

// commands are all commands, in the order that help shows them.
func (a *app) commands() []*cli.Command {
	return []*cli.Command{
		a.initCommand(),
		a.listCommand(),
		a.statusCommand(),
		a.logsCommand(),
		a.diffCommand(),
		a.validateCommand(),
		a.taskCommand(),
		a.doctorCommand(),
		a.completionCommand(),
		a.completeCommand(),
		a.helpCommand(),
	}
}
