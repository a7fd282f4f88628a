package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/cleanup"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/cli/configure"
	"github.com/trellis-tasks/trellis/internal/cli/doctor"
	"github.com/trellis-tasks/trellis/internal/cli/editing"
	"github.com/trellis-tasks/trellis/internal/cli/eval"
	"github.com/trellis-tasks/trellis/internal/cli/objective"
	"github.com/trellis-tasks/trellis/internal/cli/review"
	"github.com/trellis-tasks/trellis/internal/cli/runfile"
	"github.com/trellis-tasks/trellis/internal/cli/setup"
	"github.com/trellis-tasks/trellis/internal/cli/share"
	"github.com/trellis-tasks/trellis/internal/cli/task"
	"github.com/trellis-tasks/trellis/internal/cli/trust"
	"github.com/trellis-tasks/trellis/internal/cli/validate"
	"github.com/trellis-tasks/trellis/internal/cli/watch"
)

// commands returns all commands, in the order of the help.
func commands(a *command.Console) []*cli.Command {
	return []*cli.Command{
		setup.Command(a),
		planCommand(a),
		startCommand(a),
		watch.Command(a),
		runfile.Command(a),
		uiCommand(a),
		boardCommand(a),
		mcpCommand(a),
		listCommand(a),
		statusCommand(a),
		logsCommand(a),
		diffCommand(a),
		statsCommand(a),
		metricsCommand(a),
		stopCommand(a),
		retryCommand(a),
		cancelCommand(a),
		review.Command(a, readSigner),
		approveCommand(a),
		rejectCommand(a),
		undoCommand(a),
		editing.Command(a),
		deliverCommand(a),
		share.SubmitCommand(a),
		share.PullCommand(a),
		cleanup.Command(a),
		trust.Command(a),
		configure.Command(a),
		verifyCommand(a),
		validate.Command(a),
		task.Command(a, validate.TaskCommand(a)),
		objective.Command(a, validate.ObjectivesCommand(a)),
		promptCommand(a),
		notifyCommand(a),
		doctor.Command(a),
		eval.Command(a),
		demoCommand(a),
		completionCommand(a),
		commandline.CompleteCommand(a, func() commandline.Program { return program(a) }, completer{a}),
		versionCommand(a),
		upgradeCommand(a),
		helpCommand(a),
	}
}
