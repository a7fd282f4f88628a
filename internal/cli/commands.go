package cli

import "github.com/urfave/cli/v2"

// commands are all commands, in the order that help shows them.
func (a *console) commands() []*cli.Command {
	return []*cli.Command{
		a.initCommand(),
		a.planCommand(),
		a.startCommand(),
		a.watchCommand(),
		a.runCommand(),
		a.listCommand(),
		a.statusCommand(),
		a.logsCommand(),
		a.diffCommand(),
		a.stopCommand(),
		a.retryCommand(),
		a.cancelCommand(),
		a.approveCommand(),
		a.rejectCommand(),
		a.deliverCommand(),
		a.cleanupCommand(),
		a.trustCommand(),
		a.verifyCommand(),
		a.validateCommand(),
		a.taskCommand(),
		a.objectiveCommand(),
		a.promptCommand(),
		a.doctorCommand(),
		a.evalCommand(),
		a.demoCommand(),
		a.completionCommand(),
		a.completeCommand(),
		a.helpCommand(),
	}
}
