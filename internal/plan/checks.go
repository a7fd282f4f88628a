package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/research"
)

// proves reports whether a command that is its own proof belongs to the step: test, lint or build.
func (s Step) proves() bool {
	return s.Kind() == Script && s.Proof != nil && slices.Contains([]string{"test", "lint", "build"}, s.Proof.Type)
}

// verification is where the verification steps begin: the script steps at the end that prove tests, lint or
// a build.
func (p *Plan) verification() int {
	i := len(p.Steps)
	for i > 0 && p.Steps[i-1].proves() {
		i--
	}
	return i
}

// Verification are the commands of the plan's verification steps, the script steps at its end with proof of
// test, lint or build. Whoever carries out the plan leaves them to those who check it.
func (p *Plan) Verification() (commands []string) {
	for _, s := range p.Steps[p.verification():] {
		commands = append(commands, p.fill(s.Command))
	}
	return commands
}

// proof looks at whether a proof says enough, and no more than its type takes.
func (c *checker) proof(s *placed, proof *Proof, at string) {
	if proof == nil {
		return
	}
	c.declared(s, strings.TrimPrefix(at, s.at+"/")+"/path", proof.Path, s.loops)
	switch proof.Type {
	case "script", "test", "lint", "build":
		if s.Verify == "" && s.Command == "" {
			c.add(at, "step %s: proof %s needs a command: give the step verify", s.ID, proof.Type)
		}
	case "file":
		if proof.Path == "" {
			c.add(at, "step %s: proof file needs path", s.ID)
		} else if why := outside(proof.Path); why != "" {
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
		c.proof(s, &proof.All[i], fmt.Sprintf("%s/all/%d", at, i))
	}
	for i := range proof.Any {
		c.proof(s, &proof.Any[i], fmt.Sprintf("%s/any/%d", at, i))
	}
}

// holds looks at the commands that are to tell whether a step was done.
func (c *checker) holds(s *placed) {
	if s.Proof != nil && s.Proof.Type == "manual" {
		return
	}
	if s.Verify != "" {
		c.command(s.at+"/verify", "step "+s.ID+": ", s.Verify)
	}
	if s.Verify == "" && s.Kind() == Script && s.Proof.has("script") {
		c.command(s.at+"/command", "step "+s.ID+": ", s.Command)
	}
	if s.proves() {
		c.command(s.at+"/command", "step "+s.ID+": ", s.Command)
		if s.ContinueOnError {
			c.step(s, "continue_on_error", "a check that may fail is none")
		}
	}
}

// has reports whether a proof is of a type, or has a part that is.
func (p *Proof) has(typ string) bool {
	return p != nil && (p.Type == typ || slices.ContainsFunc(slices.Concat(p.All, p.Any), func(q Proof) bool { return q.has(typ) }))
}

// command looks at one command that is to prove something.
func (c *checker) command(at, who, line string) {
	line = c.p.fill(line)
	if research.Vacuous(line) {
		c.add(at, "%s`%s` can't fail, so it proves nothing", who, line)
		return
	}
	if c.Missing == nil {
		return
	}
	if why := c.Missing(line); why != "" {
		c.add(at, "%s`%s`: %s", who, line, why).Warning = c.brings(line)
	}
}

// brings reports whether the plan changes what a command may lack now: a file that the command names, or the
// file of its targets or scripts.
func (c *checker) brings(line string) bool {
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

// confirmed looks for the commands of the research at the end of the plan.
func (c *checker) confirmed() {
	if c.Confirmed == nil {
		return
	}
	want, last := *c.Confirmed, len(c.p.Steps)-1
	if len(want) == 0 {
		c.unconfirmed(&placed{Step: c.p.Steps[last], at: fmt.Sprintf("/steps/%d", last)})
		return
	}
	from := last + 1 - len(want)
	var have []string
	for i := max(0, from); i <= last; i++ {
		have = append(have, c.p.Steps[i].Command)
	}
	if !slices.Equal(have, want) {
		c.add(fmt.Sprintf("/steps/%d", last), "the last steps must be these commands, each as a script step, in this order and to the letter: %s", quoted(want)).Hint = "the confirmed commands of the research stand at the end"
		return
	}
	for i := from; i <= last; i++ {
		s := &placed{Step: c.p.Steps[i], at: fmt.Sprintf("/steps/%d", i)}
		if !s.proves() || s.Step.loop() != "" {
			c.step(s, "", "a verification step is a script step without a loop, with proof of type lint, test or build")
		}
	}
}

// unconfirmed: where no command proves anything, somebody has to look.
func (c *checker) unconfirmed(s *placed) {
	if s.Kind() != Prompt || !s.LLMAsJudge {
		c.step(s, "", "this project has no command that checks it, so the last step must be a prompt step with llm_as_judge").Hint = "let it review the whole change, and say in desired_outcome what to look for"
	}
}

// quoted are commands in a sentence.
func quoted(commands []string) string {
	var list []string
	for _, line := range commands {
		list = append(list, "`"+line+"`")
	}
	return strings.Join(list, ", ")
}
