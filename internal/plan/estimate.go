package plan

const (
	maxActivities  = 5000      // maximum for a run
	manyActivities = 1_000_000 // counting ends here
)

// countActivities returns the maximum number of engine activities of a step, as far as it is known: the rounds of a loop over a command's
// output count as one. inner is the number for its inner steps, or for those of its file.
func (s *Step) countActivities(inner int) int {
	n := 2 + s.ownActivities() + inner // its beginning and end
	if s.Verify != "" {
		n++
	}
	if s.Provable() {
		n++
	}
	if s.Loop() != "" {
		n = 2 + min(s.rounds(), manyActivities)*n
		if s.ForEach != nil && s.ForEach.Command != "" {
			n++
		}
	}
	if s.NeedsApproval() {
		n++
	}
	return min(n, manyActivities)
}

// ownActivities returns the activities of the step itself: its command or agent, counting every attempt, and the judging or healing.
func (s *Step) ownActivities() int {
	switch {
	case s.Kind() == Script && s.SelfHealing:
		return 2*attempts(s.MaxHealingAttempts) - 1
	case s.Kind() == Script:
		return 1
	case s.Kind() != Prompt:
		return 0
	}
	n := 1
	if s.LLMAsJudge {
		n = 2 * attempts(s.MaxJudgeAttempts)
	}
	if s.Output != "" {
		n++
	}
	return n
}

// attempts returns the maximum number of attempts for a step that specifies n; 0 means the default.
func attempts(n int) int {
	if n == 0 {
		return 5
	}
	return min(n, manyActivities)
}
