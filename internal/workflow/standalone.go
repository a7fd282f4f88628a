package workflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// FileCode is the version of RunFile in this binary. A run is finished by the code that began it: version 1 asks as soon as a
// provider's limit is said to be over, however often that was wrong.
const FileCode = 2

// FileFlow is the name of RunFile in a journal.
const FileFlow = "file"

// FileInput is the input of a run of a file of steps.
type FileInput struct {
	Code    int     `json:"code"`
	ID      string  `json:"id"`
	Number  int     `json:"number"` // of the run among those with this id, from 1
	File    string  `json:"file"`   // as a person named it
	Bundle  string  `json:"bundle"` // hash of the bundle that is run
	Agent   string  `json:"agent,omitempty"`
	Options Options `json:"options"`
	// Finished is the hash of the list of steps that earlier runs finished; the list can be too long to be part of the input.
	Finished string `json:"finished,omitempty"`
	Nonce    string `json:"nonce"`
}

// FileReport describes how such a run ended.
type FileReport struct {
	Report
	Head string `json:"head,omitempty"` // of the chain of proofs, "" if nothing was proven
}

// FileJob is what holds for the whole run.
type FileJob struct {
	Choices   map[trellis.Role]agentcall.Choice `json:"choices,omitempty"`
	Walls     map[trellis.Role]time.Duration    `json:"walls,omitempty"` // how long calls may take
	Idle      time.Duration                     `json:"idle,omitempty"`
	Attempts  int                               `json:"attempts"` // of one call that fails for a temporary reason
	Approvers int                               `json:"approvers"`
}

// The activities of a run of a file, besides those of its steps and the calls of its roles.
const (
	settle flow.Act[FileInput, FileJob] = "settle"
	seal   flow.Act[sealIn, string]     = "seal"
)

type sealIn struct {
	Done bool `json:"done"` // the run ended well
}

// RunFile runs a file of steps by itself, outside of any task. b is the file as it was when the run began, and finished the steps
// that earlier runs of the same id completed: in names both by hash, and they never change.
func RunFile(f flow.Flow, in FileInput, b *plan.Bundle, finished map[string]string) (rep FileReport, err error) {
	if in.Code > FileCode {
		return rep, flow.Fail(string(trellis.JournalDamaged), "the run was begun by a newer trellis (code %d, this one has %d)", in.Code, FileCode)
	}
	r := &fileRun{in: in}
	if r.job, err = settle.Do(f, in); err != nil {
		return rep, err
	}
	o := in.Options
	o.Finished = finished
	rep.Report, err = Run(f, b, Host{Ask: r.ask, Wait: r.wait, Own: func(*flow.Failure) bool { return true }}, o)
	if err != nil {
		return rep, err
	}
	rep.Head, err = seal.Do(f.In("end"), sealIn{rep.Failure() == nil})
	return rep, err
}

// fileRun is the host of a run of a file. Branches share it, so nothing in it changes.
type fileRun struct {
	in  FileInput
	job FileJob
}

// ask makes a call of an agent. Whoever makes the call limits how much the run as a whole may use.
func (r *fileRun) ask(f flow.Flow, q Question) (agentcall.Reply, error) {
	data, err := agentcall.Encode(q.Data)
	if err != nil {
		return agentcall.Reply{}, err
	}
	c := q.Who(r.job.Choices[q.Role])
	req := agentcall.Request{Role: q.Role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: r.in.Options.Dir, Session: q.Session,
		Template: q.Template(), Schema: q.Schema(), Data: data, Limits: agentcall.Limits{Wall: r.job.Walls[q.Role], Idle: r.job.Idle}, Round: 1, Attempt: q.Data.Attempt}
	if own := q.Limit(); q.Role == trellis.Implement && own > 0 {
		req.Limits.Wall = own
	}
	tries := 1
	asker := agentcall.Policy{Repairs: 1, Again: func(*flow.Failure) bool { tries++; return tries <= r.job.Attempts }, Eager: r.in.Code < 2}
	reply, err := asker.Call(f, req)
	if err == nil && q.Role == trellis.Implement && reply.Text.Bytes == 0 && reply.ToolCalls == 0 {
		err = flow.Fail(string(trellis.EmptyOutput), "the agent ended well, but said nothing and called no tool")
	}
	return reply, nameAgent(err, q)
}

// nameAgent adds to a failure which step's agent it is about.
func nameAgent(err error, q Question) error {
	fail := (*flow.Failure)(nil)
	if !errors.As(err, &fail) {
		return err
	}
	located := *fail
	located.Detail = fmt.Sprintf("step %s: the %s agent: %s", q.Data.Path, q.Role, fail.Detail)
	return &located
}

// wait waits for people. Decisions from earlier runs don't count: a rejected step can be asked about again.
func (r *fileRun) wait(f flow.Flow, q Request) error {
	q.Approvers = r.job.Approvers
	if r.in.Number > 1 {
		q.Hash += fmt.Sprintf("/%d", r.in.Number)
	}
	return AwaitApproval(f, q, nil, nil)
}
