package outcome

import (
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

// PrintOrder prints the result of an order, as one JSON document or for people, and returns the error for the exit code.
func PrintOrder(a *command.Console, o app.OrderResult, asJSON bool) error {
	if asJSON {
		if err := terminal.JSON(a.Stdout, o); err != nil {
			return err
		}
	} else if o.Next != "" {
		a.Say("%s; next: %s", o.Says, o.Next)
	} else {
		a.Say("%s", o.Says)
	}
	if o.Waits {
		return app.Quiet(app.ErrWaiting)
	}
	return nil
}
