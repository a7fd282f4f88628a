package agentcall

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/templates"
)

// keepAndParse writes the agent's text to AnswerFile and, unless the call failed, parses the answer in it.
func (a *Caller) keepAndParse(r Request, res *agents.Result, dir string, reply Reply, failed bool) (Reply, error) {
	text := ""
	if res != nil {
		if text = res.Text; text == "" && res.Answer != nil {
			text = string(res.Answer)
		}
	}
	text = a.mask(text)
	if err := a.Disk.WriteFile(filepath.Join(dir, AnswerFile), []byte(text), 0o600); err != nil {
		return reply, err
	}
	rel, err := filepath.Rel(a.RunDir, filepath.Join(dir, AnswerFile))
	if err != nil {
		return reply, fmt.Errorf("naming the answer: %w", err)
	}
	reply.Text = Ref{filepath.ToSlash(rel), SHA256Hex([]byte(text)), len(text)}
	reply.Excerpt = excerpt(text)
	if failed || r.Schema == "" && a.Check == nil {
		return reply, nil
	}
	if r.Schema == "" {
		reply.Problems = a.Check(r, json.RawMessage(text))
		return reply, nil
	}
	reply.Answer, reply.Problems, err = a.parse(r, res, text)
	if err == nil && len(reply.Answer) > 0 {
		var notes []string
		reply.Answer, notes = a.mend(r, reply.Answer)
		reply.Notes = append(reply.Notes, notes...)
	}
	return reply, err
}

func (a *Caller) mend(r Request, answer json.RawMessage) (json.RawMessage, []string) {
	if a.Mend == nil {
		return answer, nil
	}
	return a.Mend(r, answer)
}

func (a *Caller) parse(r Request, res *agents.Result, text string) (json.RawMessage, []string, error) {
	schema, err := templates.Schema(r.Schema)
	if err != nil {
		return nil, nil, err
	}
	var broken error
	check := func(obj json.RawMessage) []string {
		obj, _ = a.mend(r, obj)
		problems, err := templates.Violations(schema, obj)
		if err != nil {
			broken = err
		}
		if n := RecordSize(obj); n > maxAnswer {
			problems = append(problems, TooLong(n, maxAnswer))
		}
		if len(problems) == 0 && a.Check != nil {
			problems = a.Check(r, obj)
		}
		return problems
	}
	if len(res.Answer) > 0 {
		if problems := check(res.Answer); len(problems) == 0 || broken != nil {
			return json.RawMessage(a.mask(string(res.Answer))), problems, broken
		}
	}
	obj, problems := extract([]byte(text), check)
	return obj, problems, broken
}
