package cli

import (
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/cleanup"
	"github.com/trellis-tasks/trellis/internal/cli/doctor"
	"github.com/trellis-tasks/trellis/internal/cli/trust"
)

// commands are all commands, in the order that help shows them.
func commands(a *command.Console) []*cli.Command {
	return []*cli.Command{
		setups{a}.initCommand(),
		planCommand(a),
		startCommand(a),
		watchCommand(a),
		runCommand(a),
		listCommand(a),
		statusCommand(a),
		logsCommand(a),
		diffCommand(a),
		stopCommand(a),
		retryCommand(a),
		cancelCommand(a),
		approveCommand(a),
		rejectCommand(a),
		deliverCommand(a),
		cleanup.Command(a),
		trust.Command(a),
		verifyCommand(a),
		validations{a}.validateCommand(),
		tasks{a}.taskCommand(),
		objectives{a}.objectiveCommand(),
		promptCommand(a),
		doctor.Command(a),
		evals{a}.evalCommand(),
		demoCommand(a),
		completionCommand(a),
		completeCommand(a),
		helpCommand(a),
	}
}
