package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// defaultAttempts is how often a step that wants to be tried again is tried, unless it says otherwise.
const defaultAttempts = 5

func seconds(s plan.Step) time.Duration {
	return time.Duration(s.TimeoutSeconds * float64(time.Second))
}

func commandFailedOutcome(path, what string, ran CommandResult) Outcome {
	o := Outcome{Path: path, State: Failed, Code: ran.Code, TimedOut: ran.TimedOut}
	switch {
	case ran.TimedOut:
		o.Detail = fmt.Sprintf("%s took longer than its time limit", what)
	case ran.Signal != "":
		o.Detail = fmt.Sprintf("%s was ended by %s", what, ran.Signal)
	default:
		o.Detail = fmt.Sprintf("%s exited with %d", what, ran.Code)
	}
	return o
}

// runScript runs a command. If the host mends failures, it is then run again.
func (r *run) runScript(f flow.Flow, s plan.Step, sc scope) (Outcome, error) {
	return r.retryMended(f, s, sc, func(f flow.Flow) (Outcome, *CommandResult, error) {
		ran, err := r.runCommand(f, s, sc)
		if err != nil {
			return Outcome{}, nil, err
		}
		if ran.Code != 0 {
			return commandFailedOutcome(sc.path, "its command", ran), &ran, nil
		}
		return r.verifyAndProve(f, s, sc, ran, "")
	})
}

// retryMended calls do until it succeeds or the host gives up.
func (r *run) retryMended(f flow.Flow, s plan.Step, sc scope, do func(flow.Flow) (Outcome, *CommandResult, error)) (Outcome, error) {
	for n := 1; ; n++ {
		o, ran, err := do(f)
		if o, err = stepFailedOutcome(sc.path, o, err); err != nil || o.allowsNext() || r.host.Mend == nil || s.ContinueOnError {
			return o, err
		}
		again, err := r.host.Mend(f.In(fmt.Sprintf("mend-%d", n)), Trouble{Path: sc.path, Title: plan.Fill(s.Title, sc.values), Detail: o.Detail, Ran: ran})
		if err != nil || !again {
			return o, err
		}
		f = f.In(fmt.Sprintf("again-%d", n))
	}
}

// runCommand runs the command of a step. If the step is self-healing, an agent fixes what made it fail.
func (r *run) runCommand(f flow.Flow, s plan.Step, sc scope) (ran CommandResult, err error) {
	most := 1
	if s.SelfHealing {
		most = cmp.Or(s.MaxHealingAttempts, defaultAttempts)
	}
	var tries []string
	for n := 1; ; n++ {
		ran, err = shell.Do(f, r.shellInput(s, sc, "command"))
		if err != nil || ran.Code == 0 || n >= most {
			return ran, err
		}
		reply, err := r.host.Ask(f, Question{Role: trellis.Heal, Step: &s, Data: r.fillAbout(sc, PromptData{Ran: &ran, Tries: tries, Attempt: n})})
		summary := reply.Excerpt
		if fail, ok := errors.AsType[*flow.Failure](err); ok && !endsRun(fail) {
			summary, err = "the agent failed: "+fail.Error(), nil
		}
		if err != nil {
			return ran, err
		}
		tries = append(tries, text.Cut(fmt.Sprintf("attempt %d exited with %d; then: %s", n, ran.Code, summary), 2<<10))
	}
}

// stepFailedOutcome turns a failure that the step itself caused into its outcome.
func stepFailedOutcome(path string, o Outcome, err error) (Outcome, error) {
	if fail, ok := errors.AsType[*flow.Failure](err); ok && fail.Code == string(trellis.StepFailed) {
		return Outcome{Path: path, State: Failed, Detail: fail.Detail}, nil
	}
	return o, err
}

// endsRun reports whether an agent's failure ends the run, not only one attempt.
func endsRun(fail *flow.Failure) bool {
	ends := []trellis.Code{trellis.AgentMissing, trellis.AgentAuth, trellis.ProviderDown, trellis.QuotaExhausted,
		trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime, trellis.ProtectedPath}
	return slices.Contains(ends, trellis.Code(fail.Code))
}

func (r *run) shellInput(s plan.Step, sc scope, field string) shellIn {
	in := shellIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: sc.path, Field: field, Values: sc.values, Loops: sc.loops, Timeout: seconds(s)}
	if field == "command" && s.Output != "" {
		in.Output = r.file(s.Output, sc)
	}
	return in
}

// file returns the path that a variable names.
func (r *run) file(name string, sc scope) string { return plan.Fill(sc.values[name], sc.values) }

func (r *run) fillAbout(sc scope, a PromptData) PromptData {
	a.Dir, a.Bundle, a.Place, a.Path, a.Values = r.o.Dir, r.b.Hash, sc.place, sc.path, sc.values
	return a
}

// verifyAndProve runs the step's verify command, and records the step's proof.
func (r *run) verifyAndProve(f flow.Flow, s plan.Step, sc scope, ran CommandResult, session string) (Outcome, *CommandResult, error) {
	if s.Verify != "" {
		v, err := shell.Do(f, r.shellInput(s, sc, "verify"))
		if err != nil {
			return Outcome{}, nil, err
		}
		if v.Code != 0 {
			return commandFailedOutcome(sc.path, "its check", v), &v, nil
		}
		ran = v
	}
	o, err := r.finishStep(f, s, sc, ran, session)
	return o, &ran, err
}

// finishStep ends a step that did its work, and records its proof if it has one.
func (r *run) finishStep(f flow.Flow, s plan.Step, sc scope, ran CommandResult, session string) (Outcome, error) {
	o := Outcome{Path: sc.path, State: Done}
	if !s.Provable() {
		return o, nil
	}
	in := proveIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: sc.path, Kind: s.ProofKind(), Values: sc.values, Session: session, Approved: s.NeedsApproval()}
	if ran.Command != "" {
		in.Ran = &ran
	}
	p, err := prove.Do(f, in)
	if err != nil {
		return o, err
	}
	if p.Why != "" {
		return Outcome{Path: sc.path, State: Failed, Detail: p.Why}, nil
	}
	o.Proof = p.Hash
	return o, nil
}
