package plan

import (
	"slices"
	"strings"
)

// Kind returns the step's type or, if it has none, the one that follows from its fields: from the first of workflow, command,
// prompt, message, steps that is set. "" if none is.
func (s Step) Kind() string {
	switch {
	case s.Type != "":
		return s.Type
	case s.Workflow != "":
		return Workflow
	case s.Command != "":
		return Script
	case s.Prompt != "":
		return Prompt
	case s.Message != "":
		return Log
	case len(s.Steps) > 0:
		return Group
	}
	return ""
}

// requiredField maps each kind of step to the field that it requires; an approval requires a title.
var requiredField = map[string]string{Prompt: "prompt", Script: "command", Log: "message", Workflow: "workflow", Group: "steps"}

// fieldUse is a field that only some kinds of steps can have.
type fieldUse struct {
	field string
	kinds []string
	used  bool
}

// fieldUses returns the uses of the fields that belong to some kinds only. A field with its zero value is not used.
func (s Step) fieldUses() []fieldUse {
	agent, process := []string{Prompt}, []string{Prompt, Script}
	work := []string{Prompt, Script, Workflow, Group}
	asked := append(slices.Clone(work), Approval)
	return []fieldUse{
		{"prompt", agent, s.Prompt != ""},
		{"command", []string{Script}, s.Command != ""},
		{"message", []string{Log}, s.Message != ""},
		{"workflow", []string{Workflow}, s.Workflow != ""},
		{"vars", []string{Workflow}, len(s.Vars) > 0},
		{"steps", []string{Group}, len(s.Steps) > 0},
		{"parallel", []string{Group}, s.Parallel},
		{"output", process, s.Output != ""},
		{"context", agent, len(s.Context) > 0},
		{"agent", agent, s.Agent != ""},
		{"model", agent, s.Model != ""},
		{"session", agent, s.Session != ""},
		{"allowed_tools", agent, s.AllowedTools != nil},
		{"llm_as_judge", agent, s.LLMAsJudge},
		{"max_judge_attempts", agent, s.MaxJudgeAttempts > 0},
		{"self_healing", []string{Script}, s.SelfHealing},
		{"max_healing_attempts", []string{Script}, s.MaxHealingAttempts > 0},
		{"timeout_seconds", process, s.TimeoutSeconds > 0},
		{"verify", work, s.Verify != ""},
		{"risk", work, s.Risk != ""},
		{"continue_on_error", work, s.ContinueOnError},
		{"desired_outcome", asked, s.DesiredOutcome != ""},
		{"covers", asked, len(s.Covers) > 0},
		{"proof", asked, s.Proof != nil},
		{"for_each", append(slices.Clone(work), Log), s.ForEach != nil},
		{"repeat", append(slices.Clone(work), Log), s.Repeat > 0},
	}
}

// checkFields checks that a step's fields go together.
func (c *checker) checkFields(s *placedStep) {
	kind := s.Kind()
	if kind == "" {
		c.addStepProblem(s, "", "has nothing to do: give it prompt, command, message, workflow or steps")
		return
	}
	needed, there := requiredField[kind], false
	for _, u := range s.fieldUses() {
		there = there || u.field == needed && u.used
		if u.used && !slices.Contains(u.kinds, kind) {
			c.addStepProblem(s, u.field, "%s does not apply to %s step", u.field, withArticle(kind)).Hint = "it is for " + kindsPhrase(u.kinds)
		}
	}
	switch {
	case kind == Approval && s.Title == "":
		c.addStepProblem(s, "", "an approval step needs a title: it is what people are asked")
	case kind != Approval && !there:
		c.addStepProblem(s, "", "a %s step needs %s", kind, needed)
	}
	c.checkLoop(s)
	if s.MaxJudgeAttempts > 0 && !s.LLMAsJudge && kind == Prompt {
		c.addStepProblem(s, "max_judge_attempts", "max_judge_attempts has no effect without llm_as_judge").asWarning("")
	}
	if s.MaxHealingAttempts > 0 && !s.SelfHealing && kind == Script {
		c.addStepProblem(s, "max_healing_attempts", "max_healing_attempts has no effect without self_healing").asWarning("")
	}
}

func withArticle(kind string) string {
	if kind == Approval {
		return "an " + kind
	}
	return "a " + kind
}

// kindsPhrase returns a phrase such as "prompt and script steps".
func kindsPhrase(kinds []string) string {
	if n := len(kinds) - 1; n > 0 {
		return strings.Join(kinds[:n], ", ") + " and " + kinds[n] + " steps"
	}
	return kinds[0] + " steps"
}

func (c *checker) checkLoop(s *placedStep) {
	v := s.Step.Loop()
	switch {
	case s.ForEach != nil && s.Repeat > 0:
		c.addStepProblem(s, "repeat", "has for_each and repeat: a step has one loop").Hint = "put it into a group that has the other one"
	case v == "" && s.As != "":
		c.addStepProblem(s, "as", "as names the variable of a loop, and there is none").Hint = "add for_each or repeat"
	case v == "" && s.Concurrency > 0:
		c.addStepProblem(s, "concurrency", "concurrency is for a loop, and there is none").Hint = "add for_each or repeat"
	}
	if v == "" {
		return
	}
	field := "as"
	if s.As == "" {
		field = ""
	}
	if _, there := c.p.Vars[v]; there {
		c.addStepProblem(s, field, "the loop's variable %s is one of vars too", v).Hint = "name it with as"
	}
	if slices.Contains(s.loops[:len(s.loops)-1], v) {
		c.addStepProblem(s, field, "its loop hides the variable %s of the loop around it", v).asWarning("name one of them with as")
	}
	if s.ForEach == nil || s.ForEach.Command != "" {
		return
	}
	switch {
	case len(s.ForEach.Items) == 0:
		c.addStepProblem(s, "for_each", "the list is empty: the step is never done").asWarning("")
	case isCounting(s.ForEach.Items):
		c.addStepProblem(s, "for_each", "the list only counts").asWarning("say repeat")
	}
}
