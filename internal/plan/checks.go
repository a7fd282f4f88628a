package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/research"
)

// checkProof checks that a proof has the fields that its type needs, and no others.
func (c *checker) checkProof(s *placedStep, proof *Proof, at string) {
	if proof == nil {
		return
	}
	c.checkPlaceholders(s, strings.TrimPrefix(at, s.pointer+"/")+"/path", proof.Path, s.loops)
	switch proof.Type {
	case "script", "test", "lint", "build":
		if s.Verify == "" && s.Command == "" {
			c.add(at, "step %s: proof %s needs a command: give the step verify", s.ID, proof.Type)
		}
	case "file":
		if proof.Path == "" {
			c.add(at, "step %s: proof file needs path", s.ID)
		} else if why := pathFault(proof.Path); why != "" {
			c.add(at+"/path", "step %s: %s %s", s.ID, proof.Path, why)
		}
	case "composite":
		if len(proof.All)+len(proof.Any) == 0 {
			c.add(at, "step %s: proof composite needs all or any", s.ID)
		}
	}
	if proof.Type != "file" && (proof.Path != "" || proof.Contains != "" || proof.SHA256 != "") {
		c.add(at, "step %s: path, contains and sha256 are for proof file, not %s", s.ID, proof.Type)
	}
	if proof.Type != "composite" && len(proof.All)+len(proof.Any) > 0 {
		c.add(at, "step %s: all and any are for proof composite, not %s", s.ID, proof.Type)
	}
	for i := range proof.All {
		c.checkProof(s, &proof.All[i], fmt.Sprintf("%s/all/%d", at, i))
	}
	for i := range proof.Any {
		c.checkProof(s, &proof.Any[i], fmt.Sprintf("%s/any/%d", at, i))
	}
}

// checkCommands checks the commands that prove whether a step was done.
func (c *checker) checkCommands(s *placedStep) {
	if s.Proof != nil && s.Proof.Type == "manual" {
		return
	}
	if s.Verify != "" {
		c.checkCommandRounds(s, "verify", s.Verify)
	}
	if s.Verify == "" && s.Kind() == Script && s.Proof.has("script") {
		c.checkCommandRounds(s, "command", s.Command)
	}
	if s.proves() {
		c.checkCommandRounds(s, "command", s.Command)
		if s.ContinueOnError {
			c.addStepProblem(s, "continue_on_error", "a check that may fail is none")
		}
	}
}

// has reports whether a proof, or a part of it, is of a type.
func (p *Proof) has(typ string) bool {
	return p != nil && (p.Type == typ || slices.ContainsFunc(slices.Concat(p.All, p.Any), func(q Proof) bool { return q.has(typ) }))
}

// checkCommandRounds checks what a step's command becomes in the rounds of the loops around it, up to the first fault.
func (c *checker) checkCommandRounds(s *placedStep, field, text string) {
	lines, unknown := s.scope.expansions(text)
	if unknown != "" {
		lines = []string{c.p.fill(text)}
	}
	for _, line := range lines {
		if c.checkCommand(s.pointer+"/"+field, "step "+s.ID+": ", line) {
			return
		}
	}
}

// checkCommand checks one command that is to prove something. wrong reports whether there is a problem.
func (c *checker) checkCommand(at, who, line string) (wrong bool) {
	if research.Vacuous(line) {
		c.add(at, "%s`%s` can't fail, so it proves nothing", who, line)
		return true
	}
	if c.Missing == nil {
		return false
	}
	why := c.Missing(line)
	if why != "" {
		c.add(at, "%s`%s`: %s", who, line, why).Warning = c.planAdds(line)
	}
	return why != ""
}

// planAdds reports whether the plan adds what a command may lack now: a new file that it names, or a part of the file of its
// targets or scripts.
func (c *checker) planAdds(line string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'();|&<>=", r) })
	return slices.ContainsFunc(c.p.Files, func(f File) bool {
		switch path.Base(f.Path) {
		case "Makefile", "makefile", "GNUmakefile":
			return slices.Contains(words, "make")
		case "package.json":
			return slices.ContainsFunc(words, func(w string) bool { return slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, w) })
		}
		return f.Change == "new" && slices.ContainsFunc(words, func(w string) bool { return path.Clean(w) == path.Clean(f.Path) })
	})
}

const confirmedHint = "the commands that you named or the research confirmed come last"

// checkConfirmed checks that the plan ends with the confirmed commands.
func (c *checker) checkConfirmed() {
	if c.Confirmed == nil {
		return
	}
	want, last := *c.Confirmed, len(c.p.Steps)-1
	if len(want) == 0 { // no command proves anything, so somebody has to check the result
		s := &placedStep{Step: c.p.Steps[last], pointer: fmt.Sprintf("/steps/%d", last)}
		if s.Kind() != Prompt || !s.LLMAsJudge {
			c.addStepProblem(s, "", "this project has no command that checks it, so the last step must be a prompt step with llm_as_judge").Hint = "let it review the whole change, and say in desired_outcome what to look for"
		}
		return
	}
	if tail := c.p.Steps[c.p.VerificationAt():]; slices.ContainsFunc(tail, func(s Step) bool { return s.Kind() == Group || s.Loop() != "" }) {
		c.checkConfirmedInRounds(want)
		return
	}
	from := last + 1 - len(want)
	var have []string
	for i := max(0, from); i <= last; i++ {
		have = append(have, c.p.Steps[i].Command)
	}
	if !slices.Equal(have, want) {
		c.add(fmt.Sprintf("/steps/%d", last), "the last steps must be these commands, each as a script step, in this order and to the letter: %s", quoted(want)).Hint = confirmedHint
		return
	}
	for i := from; i <= last; i++ {
		s := &placedStep{Step: c.p.Steps[i], pointer: fmt.Sprintf("/steps/%d", i)}
		if !s.verifies() {
			c.addStepProblem(s, "", "a verification step is a script step with proof of type lint, test or build")
		}
	}
}

// checkConfirmedInRounds checks for the confirmed commands if the verification steps include groups or loops.
func (c *checker) checkConfirmedInRounds(want []string) {
	have := c.p.Verification()
	left := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(have, line) })
	if len(left) > 0 {
		c.add(fmt.Sprintf("/steps/%d", len(c.p.Steps)-1), "the last steps leave out these commands, which must be among them to the letter, the items of loops put in: %s", quoted(left)).Hint = confirmedHint
	}
}

// quoted formats at least one command for a sentence.
func quoted(commands []string) string { return "`" + strings.Join(commands, "`, `") + "`" }
