package plan

import (
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// Problem is one thing that is wrong with a plan, or could be.
type Problem struct {
	Pointer string // JSON pointer of the place, "" is the whole document
	Line    int    // from 1
	Column  int    // from 1, where the text is no JSON
	Message string
	Hint    string
	Warning bool
}

// Words is the problem as it is told to a model: "<pointer>: <message>".
func (p Problem) Words() string {
	at := p.Pointer
	if at == "" {
		at = "/"
	}
	return at + ": " + p.Message
}

// In is the problem as it is told to people, who have the plan in file.
func (p Problem) In(file string) trellis.Problem {
	return trellis.Problem{File: file, Line: p.Line, Column: p.Column, Message: p.Words(), Hint: p.Hint, Warning: p.Warning}
}

// Parse reads a plan.json. The plan is nil when one of the problems is an error.
func Parse(data []byte) (*Plan, []Problem) {
	schema, err := templates.Schema("plan")
	if err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	found, err := templates.Violations(schema, data)
	if err != nil {
		found = append(found, "/: "+err.Error())
	}
	p := new(Plan)
	if len(found) == 0 {
		if err := json.Unmarshal(data, p); err != nil {
			found = append(found, "/: "+err.Error())
		}
	}
	var problems []Problem
	for _, f := range found {
		problems = append(problems, Problem{Message: f})
	}
	if problems != nil {
		return nil, problems
	}
	return p, nil
}

// UnmarshalJSON reads a sentence, or {"command": "…"}.
func (p *Precondition) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Text) == nil {
		return nil
	}
	var o struct{ Command string }
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("reading precondition: %w", err)
	}
	p.Command = o.Command
	return nil
}

// UnmarshalJSON reads a list of items, or a command.
func (f *ForEach) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.Command) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &f.Items); err != nil {
		return fmt.Errorf("reading for_each: %w", err)
	}
	return nil
}
