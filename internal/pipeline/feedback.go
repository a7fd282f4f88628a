package pipeline

import (
	"encoding/json"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Feedback is what people say to the work that a run goes on with. The debug agent is told of it, once.
type Feedback struct {
	// Said are their texts, below run/, in the order in which they were given. Those that no agent was told of stand in the
	// input of the next run again.
	Said []agentcall.Ref `json:"said"`
	// Session is that of the agent who worked on what is in review, to go on with.
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
}

// feedbackDetail is what is said in short of work that people want changed.
const feedbackDetail = "a person looked at the work and asks for changes"

// trouble is what an agent is told of it.
func (fb *Feedback) trouble() *trouble {
	return &trouble{Code: trellis.ChangesRequested, Detail: feedbackDetail, Feedback: fb.Said}
}

// heed has an agent do what people say to the work so far, before anything else is done about that: what they say may
// be what it takes for the steps of the plan to go on. With no work yet it is for after the first.
func (r *run) heed(f flow.Flow) error {
	if r.in.Feedback == nil || !r.in.Begun {
		return nil
	}
	r.heeded = true
	return r.debug(f.In("feedback"), r.in.Feedback.trouble())
}

// session is that which a call of debug goes on with: of the agent who worked on the task before it was found wanting. There
// is none for what the rounds found themselves.
func (in Input) session(round int, t *trouble) (agent, session string) {
	switch {
	case t != nil && len(t.Feedback) > 0:
		return in.Feedback.Agent, in.Feedback.Session
	case in.React != nil && round == 1:
		return in.React.Agent, in.React.Session
	}
	return "", ""
}

// heard takes in that an agent was told what people said.
func (p *Progress) heard(asked agentcall.Request, reply agentcall.Reply) error {
	if p.Feedback == nil || reply.Failure != nil {
		return nil
	}
	told, err := feedbackIn(asked)
	if len(told) > 0 {
		p.Feedback = nil
	}
	return err
}

// feedbackIn is what people said that a request tells its agent of.
func feedbackIn(asked agentcall.Request) ([]agentcall.Ref, error) {
	var told about
	if err := json.Unmarshal(asked.Data, &told); err != nil || told.Trouble == nil {
		return nil, err
	}
	return told.Trouble.Feedback, nil
}

// FeedbackOf is what people said to the work that a call tells its agent of, by its journal and the texts in the run
// directory, "" for nothing.
func FeedbackOf(runDir string, c journal.Entry) string {
	var asked agentcall.Request
	if c.Activity != string(trellis.Debug) || json.Unmarshal(c.In, &asked) != nil {
		return ""
	}
	said, err := feedbackIn(asked)
	if err != nil || len(said) == 0 {
		return ""
	}
	return readFeedback(&taskDir{runDir: runDir}, said)
}

// readFeedback are the texts of people, or why they can't be read.
func readFeedback(d *taskDir, said []agentcall.Ref) string {
	text, err := d.feedback(said)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

// feedback are the texts of people, as they wrote them.
func (d *taskDir) feedback(said []agentcall.Ref) (string, error) {
	var list []string
	for _, ref := range said {
		text, err := d.output(ref)
		if err != nil || agentcall.Sum([]byte(text)) != ref.SHA256 {
			return "", flow.Fail(string(trellis.InvalidTask), "run/%s was changed since it was given as feedback: give it again, with `trellis retry --feedback`", ref.Path)
		}
		list = append(list, strings.TrimSpace(text))
	}
	return strings.Join(list, "\n\n"), nil
}

// asked is what people said to the work that a run went on with, as report.md shows it, "" for nothing.
func (w *reporter) asked(h *journal.History) string {
	var in Input
	if json.Unmarshal(h.Input, &in) != nil || in.Feedback == nil {
		return ""
	}
	return readFeedback(w.task, in.Feedback.Said)
}
