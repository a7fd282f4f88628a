package planner

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Judge: an agent decides whether a plan does what is wanted. No plan passes without a usable answer.

// Judgement is the final result of judging plans.
type Judgement struct {
	Pass     bool   `json:"pass"`
	Feedback string `json:"feedback,omitempty"`
	Rounds   int    `json:"rounds"` // number of plans judged
}

// Opinion is the answer of the judge agent.
type Opinion struct {
	Pass     bool            `json:"pass"`
	Feedback string          `json:"feedback"`
	Criteria map[string]bool `json:"criteria"`
}

// judge has a plan judged. The plan does not pass without a usable answer.
func (p *planning) judge(f flow.Flow, e exploration, d Draft) error {
	if !p.sv.Judge {
		p.skip("judge: planning.judge is false")
		return nil
	}
	a := p.planPromptData(e)
	a.Plan = &d.Plan
	if p.rep.Judge != nil {
		a.Round = p.rep.Judge.Rounds
	}
	a.Round++
	reply, err := p.ask(f, trellis.Judge, 1, a)
	if err != nil {
		return err
	}
	o, err := agentcall.Decode[Opinion](reply)
	p.rep.Judge = &Judgement{Pass: o.Pass, Feedback: agentcall.Truncate(o.Feedback, maxFaultText), Rounds: a.Round}
	return err
}

func (s *slotBuilder) addJudge(d promptData) {
	s.addFile("research", d.Research)
	s.addFile("plan", d.Plan)
	s.addGround(d.Ground)
	delete(s.values, "protected")
}

// judgeFaults says where a judge contradicts itself, or does not say what to change.
func (p prompts) judgeFaults(r agentcall.Request, answer []byte) []string {
	var o Opinion
	var d promptData
	if err := errors.Join(json.Unmarshal(answer, &o), json.Unmarshal(r.Data, &d)); err != nil {
		return []string{"/: " + err.Error()}
	}
	all := true
	for _, met := range o.Criteria {
		all = all && met
	}
	switch {
	case len(o.Criteria) > 0 && o.Pass != all:
		return []string{"/pass: is true exactly when all criteria are"}
	case !o.Pass && !p.namesStep(d.Plan, o.Feedback):
		return []string{"/feedback: name the id of a step and what to change in it"}
	}
	return nil
}

// namesStep reports whether a text contains the id of a step of the plan.
func (p prompts) namesStep(ref *agentcall.Ref, text string) bool {
	if ref == nil {
		return false
	}
	said, err := p.read(*ref)
	if err != nil {
		return false
	}
	judged, _ := plan.Parse([]byte(said))
	return judged != nil && slices.ContainsFunc(judged.IDs(), func(id string) bool { return mentions(text, id) })
}

// mentions reports whether a text contains an id as a separate word: "address" does not mention `add`.
func mentions(text, id string) bool {
	words := strings.FieldsFunc(strings.ReplaceAll(text, `\_`, "_"), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.Trim(w, "_") == id })
}
