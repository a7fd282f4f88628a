package pipeline

import (
	"encoding/json"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Feedback is what people said about the work that a run continues. The debug agent gets it once.
type Feedback struct {
	// Said are their texts, below run/, in the order in which they were given. Texts that no agent has got and ended well with are
	// in the input of the next run again.
	Said []agentcall.Ref `json:"said"`
	// Session is the session of the Agent that did the work in review, to be continued.
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
}

// feedbackDetail describes, in short, work that people want changed.
const feedbackDetail = "a person looked at the work and asks for changes"

// trouble returns the feedback as the trouble that the debug agent gets.
func (fb *Feedback) trouble() *trouble {
	return &trouble{Code: trellis.ChangesRequested, Detail: feedbackDetail, Feedback: fb.Said}
}

// addressFeedback has an agent act on people's feedback before anything else is done: the steps of the plan may need it to
// succeed. Before there is any work, feedback is left to the first round.
func (r *run) addressFeedback(f flow.Flow) error {
	if r.in.Feedback == nil || !r.in.Begun {
		return nil
	}
	r.feedbackGiven = true
	return r.debug(f.In("feedback"), r.in.Feedback.trouble())
}

// session returns the session that a call of debug continues: that of the agent who worked on the task before people, checks or
// reviewers found it wanting. Trouble that the rounds found themselves has none.
func (in Input) session(round int, t *trouble) (agent, session string) {
	switch {
	case t != nil && len(t.Feedback) > 0:
		return in.Feedback.Agent, in.Feedback.Session
	case in.React != nil && round == 1:
		return in.React.Agent, in.React.Session
	}
	return "", ""
}

// recordFeedback records that an agent got people's feedback, unless that agent failed.
func (p *Progress) recordFeedback(request agentcall.Request, reply agentcall.Reply) error {
	if p.Feedback == nil || reply.Failure != nil {
		return nil
	}
	given, err := feedbackIn(request)
	if len(given) > 0 {
		p.Feedback = nil
	}
	return err
}

// feedbackIn returns the feedback that a request gives to its agent.
func feedbackIn(request agentcall.Request) ([]agentcall.Ref, error) {
	var data promptData
	if err := json.Unmarshal(request.Data, &data); err != nil || data.Trouble == nil {
		return nil, err
	}
	return data.Trouble.Feedback, nil
}

// FeedbackOf returns the feedback on the work that a call gives to its agent, by its journal entry and the texts in the run
// directory, "" for none.
func FeedbackOf(runDir string, c journal.Entry) string {
	var request agentcall.Request
	if c.Activity != string(trellis.Debug) || json.Unmarshal(c.In, &request) != nil {
		return ""
	}
	refs, err := feedbackIn(request)
	if err != nil || len(refs) == 0 {
		return ""
	}
	return readFeedback(&taskDir{runDir: runDir}, refs)
}

// readFeedback returns people's texts, or why they can't be read.
func readFeedback(d *taskDir, refs []agentcall.Ref) string {
	text, err := d.feedback(refs)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

// feedback returns people's texts, as they wrote them.
func (d *taskDir) feedback(refs []agentcall.Ref) (string, error) {
	var list []string
	for _, ref := range refs {
		text, err := d.output(ref)
		if err != nil || agentcall.SHA256Hex([]byte(text)) != ref.SHA256 {
			return "", flow.Fail(string(trellis.InvalidTask), "run/%s was changed since it was given as feedback: give it again, with `trellis retry --feedback`", ref.Path)
		}
		list = append(list, strings.TrimSpace(text))
	}
	return strings.Join(list, "\n\n"), nil
}

// initialFeedback returns the feedback with which a run was started, as report.md shows it, "" for none.
func (w *reporter) initialFeedback(h *journal.History) string {
	var in Input
	if json.Unmarshal(h.Input, &in) != nil || in.Feedback == nil {
		return ""
	}
	return readFeedback(w.task, in.Feedback.Said)
}
