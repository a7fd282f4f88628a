package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// Effects holds the effects of running steps. Its functions may be called concurrently, since steps may run at once.
type Effects struct {
	Dir    string // where steps work by default, an absolute path
	RunDir string // the run's files
	Bundle func(hash string) (*plan.Bundle, error)
	Env    []string // whole environment of scripts, to which loop variables are added
	Marker string
	Repo   *git.Repo // nil: Dir is in no repository
	Except []string  // paths of the worktree that are not part of the work
	Prover Prover
	Decide func(Request) (Answer, error) // returns what people have decided on a request so far
	Disk   *durable.Disk
	Redact func(string) string
	// Documents returns the texts of the task that the plan belongs to, as prompts show them, including what the plan is about,
	// and notes on what is not shown. Nil: there is no task.
	Documents func(context.Context) (artifacts string, notes []string, err error)
	Protected []string     // globs of protected paths, for prompts
	Box       *sandbox.Box // in which commands run
	// Event is called with each event as it happens. Nil: events are dropped.
	Event func(Event)
	Now   func() time.Time

	mu         sync.Mutex
	halted     map[string]bool      // paths of loops that are over, "" for the run
	startTimes map[string]time.Time // when steps that this process began did so
}

// Prover records proofs.
type Prover interface {
	// Prove adds a record to the chain and returns its hash. If it is called again with the same key it returns that record.
	Prove(ctx context.Context, key string, e Evidence) (string, error)
}

// Evidence is what a step is proven by.
type Evidence struct {
	Dir, Path, Kind, StepHash string
	Bundle                    *plan.Bundle
	Ran                       *CommandResult // the command that decided, nil if none did
	File                      proof.Digest   // the file, for a proof of kind file
	Checks                    []proof.Check  // the parts, for a composite proof
	Session                   string
	Began, Ended              time.Time
}

// Proof returns the evidence as a record for task. run and activity are its key.
func (e Evidence) Proof(task, run, activity string) proof.Proof {
	p := proof.Proof{Activity: activity, Began: e.Began, Ended: e.Ended, Checks: e.Checks, File: e.File, Kind: e.Kind, Run: run, Session: e.Session,
		Step: Chained(e.Path), StepHash: e.StepHash, Task: task}
	if e.Ran != nil {
		p.Command, p.Exit, p.Stdout, p.Stderr = e.Ran.Command, e.Ran.Code, Digest(e.Ran.Stdout), Digest(e.Ran.Stderr)
	}
	return p
}

// Chained returns the path of a step as records have it: "each.2.build" becomes each/item-2/build.
func Chained(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if _, err := strconv.Atoi(part); err == nil {
			parts[i] = "item-" + part
		}
	}
	return strings.Join(parts, "/")
}

// Digest returns the digest of a file of the run for records.
func Digest(r agentcall.Ref) proof.Digest {
	return proof.Digest{Bytes: int64(r.Bytes), Path: r.Path, SHA256: r.SHA256}
}

// Activities returns all that a run does besides calling agents. For most of them, records may reach the disk with the next one
// that is waited for: what is lost in a power cut is done again, like an activity that was interrupted.
func (a *Effects) Activities() []flow.Activity {
	list := []flow.Activity{begin.With(a.begin), end.With(a.end), shell.With(a.shell), items.With(a.items), checkOutput.With(a.checkOutput), halt.With(a.halt)}
	for i := range list {
		list[i].Lazy = true
	}
	return append(list, prove.With(a.prove), request.With(a.decide))
}

func (a *Effects) step(hash string, at plan.Place) (*plan.Bundle, *plan.Step, error) {
	b, err := a.Bundle(hash)
	if err != nil {
		return nil, nil, err
	}
	s := b.Step(at)
	if s == nil {
		return nil, nil, fmt.Errorf("there is no step at %v of %s", at.At, hash)
	}
	return b, s, nil
}

// begin records that a step, or a round of it, begins, unless the run or its loop is over.
func (a *Effects) begin(ctx context.Context, c flow.Call, in beginIn) (out beginResult, err error) {
	_, s, err := a.step(in.Bundle, in.Place)
	if err != nil {
		return out, err
	}
	a.mu.Lock()
	out.Stop = a.halted[""] || in.Loop != "" && a.halted[in.Loop]
	a.mu.Unlock()
	if out.Stop {
		return out, nil
	}
	a.sendBegin(s, in)
	if in.Kind == plan.Prompt && s.Output != "" {
		out.Output, _ = a.fileHash(in.Dir, plan.Fill(in.Values[s.Output], in.Values)) // an error is reported after the step
	}
	if in.Kind == plan.Prompt && s.LLMAsJudge && err == nil {
		out.Tree, err = a.tree(ctx, c, in.Dir)
	}
	return out, err
}

// workDir returns the folder that a step works in.
func (a *Effects) workDir(dir string) string {
	return cmp.Or(dir, a.Dir)
}

// fileHash returns the hash of a file below dir, "" if there is none.
func (a *Effects) fileHash(dir, name string) (string, error) {
	d, err := a.digest(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return d.SHA256, err
}

const (
	maxFile = 4 << 30  // maximum size of a file that a step has to write
	maxText = 64 << 20 // and of one that is searched for a text
)

// digest returns the size and hash of a file below dir. No link on the way to it may lead out of dir.
func (a *Effects) digest(dir, name string) (d proof.Digest, err error) {
	size, sum, err := durable.SumBelow(a.workDir(dir), name, maxFile)
	if err != nil {
		return d, err
	}
	return proof.Digest{Bytes: size, Path: path.Clean(name), SHA256: sum}, nil
}

func (a *Effects) end(_ context.Context, _ flow.Call, in endIn) (ended, error) {
	o := in.Outcome
	if o.Empty {
		a.Send(Event{Type: StepOutput, Step: o.Path, Stream: "log", Text: noItems})
	}
	a.Send(Event{Type: StepFinished, Step: o.Path, Kind: in.Kind, State: o.State, Code: o.Code, Text: o.Detail, Proof: o.Proof, Tolerated: o.Tolerated, Seconds: a.stepSeconds(o.Path)})
	return ended{}, nil
}

// Finished returns the steps that a run completed: the hash of each by its path.
func Finished(h *journal.History) (map[string]string, error) {
	done := map[string]string{}
	return done, eachInput(h, string(end), func(in endIn) {
		if in.Outcome.State == Done && in.Hash != "" {
			done[in.Outcome.Path] = in.Hash
		}
	})
}

// eachInput calls do with the input of each call of an activity that succeeded.
func eachInput[In any](h *journal.History, activity string, do func(In)) error {
	for _, e := range h.Calls {
		if e.Activity != activity || !e.Done || e.Fail != nil {
			continue
		}
		var in In
		if err := json.Unmarshal(e.In, &in); err != nil {
			return fmt.Errorf("reading %s: %w", e.ID, err)
		}
		do(in)
	}
	return nil
}

func (a *Effects) halt(_ context.Context, _ flow.Call, in haltIn) (struct{}, error) {
	a.recordHalt(in.Loop)
	return struct{}{}, nil
}

// recordHalt records that a run or a loop is over: no step or round of it begins from then on.
func (a *Effects) recordHalt(loop string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.halted == nil {
		a.halted = map[string]bool{}
	}
	a.halted[loop] = true
}

// checkOutput checks that a prompt step wrote the file that it had to write.
func (a *Effects) checkOutput(_ context.Context, _ flow.Call, in outputIn) (outputOut, error) {
	now, err := a.fileHash(in.Dir, in.File)
	switch {
	case err != nil:
		return outputOut{Why: "it was to write " + in.File + ", which can't be read: " + errorText(err)}, nil
	case now == "":
		return outputOut{Why: "it was to write " + in.File + ", and did not"}, nil
	case now == in.Before:
		return outputOut{Why: "it was to write " + in.File + ", which is as it was before"}, nil
	}
	return outputOut{}, nil
}

// prove records the proof of a step that did its work.
func (a *Effects) prove(ctx context.Context, c flow.Call, in proveIn) (out proofResult, err error) {
	b, s, err := a.step(in.Bundle, in.Place)
	if err != nil {
		return out, err
	}
	e := Evidence{Dir: a.workDir(in.Dir), Path: in.Path, Kind: in.Kind, Bundle: b, StepHash: b.Plan(in.Place.File).StepHash(*s), Ran: in.Ran, Session: in.Session, Ended: a.now()}
	e.Began = e.Ended
	if in.Ran != nil {
		e.Began = e.Ended.Add(-time.Duration(in.Ran.Seconds * float64(time.Second)))
	}
	if s.Proof != nil {
		if out.Why, err = a.proofFault(*s.Proof, in, &e, s.Proof.Type == "composite"); err != nil || out.Why != "" {
			return out, err
		}
	}
	out.Hash, err = a.Prover.Prove(ctx, c.Key(), e)
	return out, err
}

// proofFault says why a proof does not hold, "" if it does. part is set for a part of a composite proof.
func (a *Effects) proofFault(p plan.Proof, in proveIn, e *Evidence, part bool) (string, error) {
	check := proof.Check{Kind: p.Type}
	switch p.Type {
	case "manual":
		if !in.Approved {
			return "nobody approved it", nil
		}
	case "file":
		d, not := a.checkFile(p, in)
		if not != "" {
			return not, nil
		}
		if !part {
			e.File = d
		}
		check.Stdout = proof.Digest{Bytes: d.Bytes, SHA256: d.SHA256} // without a path: it is not a file of the run
	case "composite":
		return a.compositeFault(p, in, e)
	default:
		if in.Ran == nil || in.Ran.Code != 0 {
			return "no command proves it: a proof of type " + p.Type + " needs a command or verify", nil
		}
		check.Command, check.Stdout, check.Stderr = in.Ran.Command, Digest(in.Ran.Stdout), Digest(in.Ran.Stderr)
	}
	if part {
		e.Checks = append(e.Checks, check)
	}
	return "", nil
}

func (a *Effects) checkFile(p plan.Proof, in proveIn) (d proof.Digest, not string) {
	name := plan.Fill(p.Path, in.Values)
	var text []byte
	var err error
	if p.Contains == "" {
		d, err = a.digest(in.Dir, name)
	} else {
		text, err = durable.ReadBelow(a.workDir(in.Dir), name, maxText)
		d = proof.Digest{Bytes: int64(len(text)), Path: path.Clean(name), SHA256: agentcall.SHA256Hex(text)}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		not = "there is no " + name
	case err != nil:
		not = name + " can't be read: " + errorText(err)
	case p.SHA256 != "" && !strings.EqualFold(p.SHA256, d.SHA256):
		not = fmt.Sprintf("%s has the SHA-256 %s, not %s", name, d.SHA256, p.SHA256)
	case p.Contains != "" && !bytes.Contains(text, []byte(plan.Fill(p.Contains, in.Values))):
		not = fmt.Sprintf("%s does not contain %q", name, p.Contains)
	}
	return d, not
}

// compositeFault checks all parts of p.All, and that at least one of p.Any holds.
func (a *Effects) compositeFault(p plan.Proof, in proveIn, e *Evidence) (string, error) {
	for _, part := range p.All {
		if why, err := a.proofFault(part, in, e, true); err != nil || why != "" {
			return why, err
		}
	}
	var whys []string
	for _, part := range p.Any {
		why, err := a.proofFault(part, in, e, true)
		if err != nil || why == "" {
			return "", err
		}
		whys = append(whys, why)
	}
	return strings.Join(whys, "; "), nil
}

func (a *Effects) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

func (a *Effects) redact(s string) string {
	if a.Redact == nil {
		return s
	}
	return a.Redact(s)
}
