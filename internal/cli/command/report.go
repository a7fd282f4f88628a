package command

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
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

	Problems []trellis.Problem `json:"problems,omitempty"` // all places that the error is about, if there are several
}

// WithProblems returns err, which problems are the reason for. For people, tell prints the problems at
// once; with JSONErrors they become part of the error document.
func WithProblems(c *Console, err error, problems []trellis.Problem, tell func([]trellis.Problem)) error {
	if c.JSONErrors {
		return &app.PlacesError{Err: err, Places: problems}
	}
	tell(problems)
	return err
}

// Note prints how a command understood the call, before it works. With JSONErrors the note is
// printed at the end, unless the call ends with an error.
func Note(c *Console, format string, args ...any) {
	if c.JSONErrors {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
		return
	}
	c.Say(format, args...)
}

// Report prints an error and its hints for people, or with JSONErrors as one JSON document, without
// the notes. An error with an empty message has been reported before and is not printed.
func (c *Console) Report(err error) {
	said := err == nil || err.Error() == ""
	if c.JSONErrors && !said {
		_ = terminal.JSON(c.Stderr, errorDocument{errorObjectOf(err)}) // an error here can't be reported anywhere
		return
	}
	for _, note := range c.notes {
		c.Say("%s", note)
	}
	if said {
		return
	}
	c.Say("%v", err)
	if several, ok := errors.AsType[*app.PlacesError](err); ok {
		for i, p := range trellis.Errors(several.Places) {
			if i > 0 { // the first is in the message
				c.Say("%v", &p)
			}
		}
	}
	for _, h := range app.HintsOf(err) {
		c.Say("next: %s", h)
	}
}

func errorObjectOf(err error) errorObject {
	o := errorObject{Message: err.Error(), Kind: app.KindOf(err), Exit: ExitCode(err), Next: append([]string{}, app.HintsOf(err)...)}
	if failure, ok := errors.AsType[*flow.Failure](err); ok {
		o.Code = trellis.Code(failure.Code)
	}
	if file, ok := errors.AsType[*durable.FileError](err); ok {
		o.File = file.Path
	}
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		o.File, o.Line, o.Column = p.File, p.Line, p.Column
	}
	if several, ok := errors.AsType[*app.PlacesError](err); ok {
		o.Problems = several.Places
	}
	return o
}
