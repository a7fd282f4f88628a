package plan

const (
	maxActivities  = 5000      // that a run may take
	manyActivities = 1_000_000 // from here on nobody counts
)

// takes is how many activities of the engine a step takes at most, as far as that is known: the rounds of a loop
// whose command finds the items count once. inner is what its steps, or those of its file, take.
func (s *Step) takes(inner int) int {
	n := 2 + s.work() + inner // it begins and ends
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
	if s.Asks() {
		n++
	}
	return min(n, manyActivities)
}

// work is what the step itself takes: its command or its agent, every attempt counted, and who judges or mends.
func (s *Step) work() int {
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

// attempts is how often something is tried at most, where a step says n.
func attempts(n int) int {
	if n == 0 {
		return 5
	}
	return min(n, manyActivities)
}
