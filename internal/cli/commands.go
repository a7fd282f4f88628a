package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/cleanup"
	"github.com/trellis-tasks/trellis/internal/cli/doctor"
	"github.com/trellis-tasks/trellis/internal/cli/trust"
)

// commands are all commands, in the order that help shows them.
func (a *console) commands() []*cli.Command {
	return []*cli.Command{
		setups{&a.Console}.initCommand(),
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
		cleanup.Command(&a.Console),
		trust.Command(&a.Console),
		a.verifyCommand(),
		validations{&a.Console}.validateCommand(),
		tasks{&a.Console}.taskCommand(),
		objectives{&a.Console}.objectiveCommand(),
		a.promptCommand(),
		doctor.Command(&a.Console),
		evals{&a.Console}.evalCommand(),
		a.demoCommand(),
		a.completionCommand(),
		a.completeCommand(),
		a.helpCommand(),
	}
}
