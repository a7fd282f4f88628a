package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Read reads what was done for all tasks since a time, zero for all. It takes no lock and disturbs nobody. A journal that was
// not written to since is not opened; one that can't be read is named, and what stands before its damage counts.
func Read(store taskdir.Store, since time.Time) (*Record, error) {
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	archived, err := store.ListArchived()
	if err != nil {
		return nil, err
	}
	entries = append(entries, archived...)
	parts := make([]part, len(entries))
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(entries); i += workers {
				parts[i] = readTask(store, entries[i], since)
			}
		})
	}
	wait.Wait()
	r := &Record{Since: since}
	for _, p := range parts {
		r.calls = append(r.calls, p.calls...)
		r.Problems = append(r.Problems, p.problems...)
		if p.task.rounds > 0 || p.task.end != open {
			r.tasks = append(r.tasks, p.task)
		}
	}
	return r, nil
}

// part is what was done for one task.
type part struct {
	since    time.Time
	task     task
	calls    []call
	problems []string
}

func readTask(store taskdir.Store, e taskdir.Entry, since time.Time) part {
	p := part{since: since, task: task{id: strings.TrimPrefix(e.ID, taskdir.DraftPrefix)}}
	run := filepath.Join(e.Dir, taskdir.Run)
	files, err := journal.Archived(run)
	if err != nil {
		p.problems = append(p.problems, fmt.Sprintf("%s: %v", store.Rel(run), err))
	}
	for _, file := range append(files, filepath.Join(e.Dir, taskdir.Journal)) {
		if written(file).Before(since) {
			continue
		}
		h, err := journal.ReadFile(file)
		if err != nil && !errors.Is(err, journal.ErrNone) {
			p.problems = append(p.problems, fmt.Sprintf("%s: %v", store.Rel(file), err))
		}
		if h != nil {
			p.history(h)
		}
	}
	if e.Task != nil && e.Task.Status == trellis.Rejected {
		p.rejected(e)
	}
	return p
}

// written is when a file was written last. One that can't be looked at is for its reader to tell of.
func written(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Now()
	}
	return st.ModTime()
}

// history takes in a run or a planning.
func (p *part) history(h *journal.History) {
	var last pipeline.TaskState
	debugged := false
	for _, c := range h.Calls {
		role := trellis.Role(c.Activity)
		debugged = debugged || role == trellis.Debug || role == trellis.Heal
		if s, ok := pipeline.StateWritten(c.Activity, c.In); ok {
			last = s
		} else if used, ok := callOf(role, c); ok && !c.Finished.Before(p.since) {
			used.task = p.task.id
			p.calls = append(p.calls, used)
		}
	}
	if h.Flow == pipeline.Flow && (!h.Ended || !h.EndedAt.Before(p.since)) {
		p.run(h, last, debugged)
	}
}

// run takes in how far a run of the pipeline came, by the state that it wrote last.
func (p *part) run(h *journal.History, last pipeline.TaskState, debugged bool) {
	p.task.rounds += last.Round
	if !h.Ended || last.Outcome == "" {
		return
	}
	var in pipeline.Input
	if err := json.Unmarshal(h.Input, &in); err != nil {
		p.problems = append(p.problems, fmt.Sprintf("%s: reading the input of run %s: %v", p.task.id, h.Run, err))
	}
	p.task.at, p.task.code, p.task.firstPass = h.EndedAt, "", false
	switch last.Outcome {
	case trellis.NoChangeNeeded:
		p.task.end = unneeded
	case trellis.OutcomeFailed:
		p.task.end = failed
	case trellis.OutcomeCancel:
		p.task.end = cancelled
	default:
		p.task.end = delivered
		p.task.firstPass = in.Retries == 0 && in.React == nil && !debugged
	}
	if last.Failure != nil {
		p.task.code = trellis.Code(last.Failure.Code)
	}
}

// rejected takes in that a requirement or a plan was rejected, by an agent or a person.
func (p *part) rejected(e taskdir.Entry) {
	file := filepath.Join(e.Dir, taskdir.Rejected)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		file = filepath.Join(e.Dir, taskdir.TaskJSON)
	}
	if at := written(file); !at.Before(p.since) {
		p.task.at, p.task.end = at, rejected
	}
}

// callOf is what an activity took, when it is one that counts.
func callOf(role trellis.Role, c journal.Entry) (call, bool) {
	if !c.Done {
		return call{}, false
	}
	if slices.Contains(trellis.Roles, role) {
		return askedOf(role, c)
	}
	seconds := commandsOf(c)
	return call{phase: phaseOf(c.Activity), at: c.Finished, checks: seconds}, seconds > 0
}

// askedOf is what a call of an agent took.
func askedOf(role trellis.Role, c journal.Entry) (call, bool) {
	var asked struct{ Agent string }
	var reply agentcall.Reply
	if json.Unmarshal(c.In, &asked) != nil || c.Fail == nil && json.Unmarshal(c.Out, &reply) != nil {
		return call{}, false // records in another shape say nothing
	}
	return call{phase: string(role), agent: asked.Agent, at: c.Finished, usage: reply.Usage,
		failed: c.Fail != nil || reply.Failure != nil || len(reply.Problems) > 0, refused: refuses(role, reply)}, asked.Agent != ""
}

// refuses reports whether an answer says no.
func refuses(role trellis.Role, r agentcall.Reply) bool {
	if role != trellis.Accept {
		o := status.OpinionOf(role, r)
		return o.Refused() || o.Decision == "reject"
	}
	var said struct{ Criteria []pipeline.Judged }
	return json.Unmarshal(r.Answer, &said) == nil &&
		slices.ContainsFunc(said.Criteria, func(j pipeline.Judged) bool { return j.Verdict != "met" })
}

// commandsOf are the seconds that an activity ran commands of the project.
func commandsOf(c journal.Entry) (seconds float64) {
	if !bytes.Contains(c.Out, []byte(`"seconds":`)) {
		return 0
	}
	var out struct {
		workflow.Ran
		Results []pipeline.CommandResult
	}
	if json.Unmarshal(c.Out, &out) != nil {
		return 0
	}
	for _, r := range out.Results {
		seconds += r.Seconds
	}
	if out.Command != "" {
		seconds += out.Seconds
	}
	return seconds
}

// phaseOf is the phase that an activity with commands belongs to.
func phaseOf(activity string) string {
	switch activity {
	case "baseline", "verify", "final-verify":
		return activity
	}
	return steps
}
