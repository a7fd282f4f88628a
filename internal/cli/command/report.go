package command

import (
	"errors"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type errorDocument struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Message string       `json:"message"`
	Kind    app.Kind     `json:"kind"`
	Exit    int          `json:"exit"`
	Code    trellis.Code `json:"code,omitempty"` // of the failure of a run or a planning
	File    string       `json:"file,omitempty"`
	Line    int          `json:"line,omitempty"`
	Column  int          `json:"column,omitempty"`
	Next    []string     `json:"next"` // commands to type, or what to do
}

// Report prints an error and its hints for people, or as one JSON document for who asked for JSON. An error about which
// all has been said is not printed.
func (c *Console) Report(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	if c.JSONErrors {
		_ = terminal.JSON(c.Stderr, errorDocument{objectOf(err)}) // where nobody reads, nobody is told
		return
	}
	c.Say("%v", err)
	for _, h := range app.HintsOf(err) {
		c.Say("next: %s", h)
	}
}

func objectOf(err error) errorObject {
	o := errorObject{Message: err.Error(), Kind: app.KindOf(err), Exit: ExitCode(err), Next: append([]string{}, app.HintsOf(err)...)}
	var failure *flow.Failure
	if errors.As(err, &failure) {
		o.Code = trellis.Code(failure.Code)
	}
	var p *trellis.Problem
	if errors.As(err, &p) {
		o.File, o.Line, o.Column = p.File, p.Line, p.Column
	}
	return o
}
