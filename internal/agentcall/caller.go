package agentcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// Files of an activity's folder run/<run>/<activity>/<entry>/, next to the agent's stream.jsonl and stderr.log.
const (
	PromptFile = "prompt.md"
	AnswerFile = "answer.md"
	ResultFile = "result.json"
)

// maxAnswer is the largest structured answer, which has to fit into a journal record with what stands beside it.
const maxAnswer = 48 << 10

// Agents says which agent plays a role, and what it is told. Its functions may be called concurrently.
type Agents struct {
	// Choose picks the agent of a role: flag, config, role file, the task's own agent, default.
	Choose func(role trellis.Role, taskAgent, flag string) (Choice, error)
	Open   func(name string) (agents.Agent, error)
	// Render makes a prompt from a template, with what the project changed of it.
	Render func(name string, slots map[string]string) (templates.Prompt, error)
}

// Caller makes the calls of roles. Its functions may be called concurrently by different calls.
type Caller struct {
	RunDir string // the task's run/
	Disk   *durable.Disk
	Marker string
	Agents Agents
	// Slots are what the prompt of a request is made of, by the slots of its template, and what had to be left
	// out.
	Slots func(context.Context, flow.Call, Request) (slots map[string]string, notes []string, err error)
	// Check says what is wrong with an answer beyond its schema (free text: as a whole), as JSON pointer and
	// reason. Nil: nothing is.
	Check func(r Request, answer json.RawMessage) []string
	// Mend puts right in an answer, before it is checked, what costs nothing, and says what. Nil: nothing is.
	Mend func(r Request, answer json.RawMessage) (mended json.RawMessage, notes []string)
	Env  func(flow.Call, Request) []string
	// Known is the answer that an earlier run got to the same request, with a prompt of the same SHA-256; what that used is counted.
	// Nil: every call is made.
	Known func(r Request, prompt string) (reply Reply, ok bool)
	// Watch looks at what a request may not change. Nil: nothing is watched.
	Watch func(context.Context, flow.Call, Request) (Watcher, error)
	// Spend takes in what a call used since it was told of it last, at the beginning nothing, and says what all calls
	// together may still use. An error keeps a call from being made, and is nothing to one that was begun. Nil:
	// nobody counts.
	Spend func(c flow.Call, more trellis.Usage) (Budget, error)
	// Redact masks known secrets. Nil: nothing is masked.
	Redact func(string) string
	// Event is told what happens. Nil: nobody is.
	Event func(flow.Call, Request, agents.Event)
	Now   func() time.Time

	shared sharedBudget // what calls at the same time use
	off    calledOff
}

// Activities are the calls of all roles given.
func (a *Caller) Activities(roles ...trellis.Role) (list []flow.Activity) {
	for _, r := range roles {
		list = append(list, flow.Act[Request, Reply](r).With(a.perform))
	}
	return list
}

// perform makes one call. An earlier entry that was cut off after its end answers; one that was cut off
// in its work is gone on with in its session, and what it used counts.
func (a *Caller) perform(ctx context.Context, c flow.Call, r Request) (Reply, error) {
	base := filepath.Join(a.RunDir, Folder(c))
	earlier, session, err := a.resume(base, c.Attempt)
	if err != nil {
		return Reply{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	lost := usageOfEarlier(base, c.Attempt)
	dir, off, err := a.begin(base, c)
	if off != nil || err != nil {
		return Reply{Failure: off, Usage: lost, Session: session, ToolCalls: -1}, err
	}
	if known, ok, err := a.known(ctx, c, r, dir); ok || err != nil {
		known.Usage = lost
		return known, err
	}
	fail, bound, err := a.applyBudget(c, &r.Limits, lost)
	if fail != nil || err != nil {
		r.explain(fail)
		return Reply{Failure: fail, Usage: lost, Session: cmp.Or(session, r.Session), ToolCalls: -1}, err
	}
	before := interrupted{dir: lastFolder(base, c.Attempt), agent: r.Agent, mayRestart: (session != "" && session != r.Session || r.RestartSession) && r.Repair == nil}
	if session != "" {
		r.Session = session
	}
	recheck, err := a.watch(ctx, c, r)
	if err != nil {
		return Reply{}, err
	}
	prompt, notes, err := a.prompt(ctx, c, r, resumption(base, c.Attempt, r, session))
	if err == nil {
		err = a.keepUnsynced(dir, PromptFile, []byte(a.mask(prompt.Text)))
	}
	if err != nil {
		return Reply{}, drop(ctx, recheck, err)
	}
	reply, err := a.run(ctx, c, r, prompt, dir, before, recheck)
	reply.Usage = lost.Add(reply.Usage)
	bound.explain(reply.Failure)
	r.explain(reply.Failure)
	reply.Notes = TruncateList(append(notes, reply.Notes...), maxSentences)
	reply.Problems = TruncateList(reply.Problems, maxSentences)
	if err != nil {
		return Reply{}, err
	}
	return reply, a.keepReply(dir, c, reply)
}

// known is the reply that an earlier run got to the same request: it costs nothing, and so it is waited for by no budget.
func (a *Caller) known(ctx context.Context, c flow.Call, r Request, dir string) (reply Reply, ok bool, err error) {
	if a.Known == nil {
		return reply, false, nil
	}
	prompt, notes, err := a.prompt(ctx, c, r, "")
	if err != nil {
		return reply, false, err
	}
	if reply, ok = a.Known(r, sizeOf(prompt).SHA256); !ok {
		return reply, false, nil
	}
	reply.Notes = TruncateList(notes, maxSentences)
	return reply, true, errors.Join(a.keepUnsynced(dir, PromptFile, []byte(a.mask(prompt.Text))), a.keepReply(dir, c, reply))
}

func (a *Caller) keepReply(dir string, c flow.Call, reply Reply) error {
	raw, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding the reply of %s: %w", c.ID, err)
	}
	return a.keepUnsynced(dir, ResultFile, raw)
}

// keepUnsynced keeps a file whose loss by a power cut costs nothing but a call that is made again.
func (a *Caller) keepUnsynced(dir, name string, data []byte) error {
	if err := a.Disk.Step("note", filepath.Join(dir, name)); err != nil {
		return err
	}
	return WriteUnsynced(dir, name, data)
}

// WriteUnsynced writes a file that a power cut may take: it appears whole, and is not synced.
func WriteUnsynced(dir, name string, data []byte) error {
	temp := filepath.Join(dir, durable.TempPrefix+name)
	err := durable.WriteOwn(temp, data, 0o600)
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	return nil
}

// makeFolder makes the folder of an entry. What another run of the same number left there, whose journal is gone,
// is no earlier entry of this one.
func (a *Caller) makeFolder(base string, c flow.Call) (string, error) {
	if _, err := os.Stat(filepath.Dir(a.RunDir)); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err) // the task is gone, and is not made anew
	}
	if c.Attempt == 1 {
		if err := os.RemoveAll(base); err != nil {
			return "", fmt.Errorf("clearing the folder of %s: %w", c.ID, err)
		}
	}
	dir := filepath.Join(base, strconv.Itoa(c.Attempt))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err)
	}
	return dir, nil
}

// maxSentences is how many problems and notes a reply holds.
const maxSentences = 20

// Folder is where a call keeps its files, below run/: <run number>/<activity id>.
func Folder(c flow.Call) string {
	return filepath.Join(c.Run[strings.LastIndexByte(c.Run, '/')+1:], filepath.FromSlash(c.ID))
}

// sessionFile names the agent's session as soon as it is known, so that a killed run can go on in it.
const sessionFile = "session"

// resume is the reply of an entry that ended but was not recorded, or the session of one that was cut off.
func (a *Caller) resume(base string, attempt int) (*Reply, string, error) {
	for n := attempt - 1; n > 0; n-- {
		dir := filepath.Join(base, strconv.Itoa(n))
		raw, err := durable.ReadBelow(dir, ResultFile, durable.MaxJournal)
		if err == nil {
			var r Reply
			if json.Unmarshal(raw, &r) == nil {
				return &r, "", nil
			}
			err = fs.ErrNotExist // a power cut took what was in it, see keepUnsynced: the call is made again
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("looking for an earlier result: %w", err)
		}
		if id, err := durable.ReadBelow(dir, sessionFile, durable.MaxDocument); err == nil && len(id) > 0 {
			return nil, string(id), nil
		}
	}
	return nil, "", nil
}

// prompt renders the request. A repair goes to a session that remembers the request alone, to a new one
// behind the whole of it. before is what goes before it.
func (a *Caller) prompt(ctx context.Context, c flow.Call, r Request, before string) (p templates.Prompt, notes []string, err error) {
	if r.Repair == nil || r.Session == "" {
		slots, notes, err := a.Slots(ctx, c, r)
		if err != nil {
			return p, nil, err
		}
		p, err = a.Agents.Render(r.template(), slots)
		if before != "" {
			p.Text, p.Shared = before+p.Text, 0
		}
		if r.Repair == nil || err != nil {
			return p, notes, err
		}
	}
	fix, err := a.repair(r)
	if err != nil {
		return p, notes, err
	}
	if p.Text == "" {
		return fix, notes, nil
	}
	p.Text += "\n\n" + fix.Text
	return p, notes, nil
}

// maxPrevious is how much of a refused answer goes back with what is wrong with it.
const maxPrevious = 16 << 10

// repair asks for a better answer. Who remembers the refused one is not shown it again, others as much as fits.
func (a *Caller) repair(r Request) (p templates.Prompt, err error) {
	slots := map[string]string{"problems": strings.Join(r.Repair.Problems, "\n")}
	if r.Session == "" {
		previous, err := durable.ReadBelow(a.RunDir, r.Repair.Previous.Path, durable.MaxJournal)
		if err != nil {
			return p, fmt.Errorf("reading the previous answer: %w", err)
		}
		slots["previous"] = elideMiddle(string(previous), maxPrevious)
	}
	if r.Schema != "" {
		schema, err := templates.Schema(r.Schema)
		if err != nil {
			return p, err
		}
		slots["schema"] = string(schema)
	}
	return a.Agents.Render("repair", slots)
}

// run runs the agent and reads its answer. What the agent did wrong is part of the reply; an error is
// what keeps us from asking.
func (a *Caller) run(ctx context.Context, c flow.Call, r Request, p templates.Prompt, dir string, before interrupted, recheck Watcher) (reply Reply, err error) {
	reply.Prompt = sizeOf(p)
	reply.ToolCalls = -1
	agent, err := a.Agents.Open(r.Agent)
	req := a.request(c, r, p, dir)
	if err == nil && r.Schema != "" {
		req.Schema, err = templates.Native(r.Schema)
	}
	if err != nil {
		return reply, drop(ctx, recheck, err)
	}
	began := a.now()
	shared, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer a.off.during(c, end)()
	share, fail := a.shared.begin(r.Limits, end)
	if fail != nil {
		fail.At = began.UTC()
		reply.Failure = fail
		return reply, drop(ctx, recheck, nil)
	}
	defer share.done()
	m := &meter{caller: a, call: c, dir: dir, began: began, share: share}
	defer m.tick()()
	req.Spent = m.report
	res, err := before.run(shared, agent, req, func() func(agents.Event) { return a.events(c, r, dir) })
	switch off := errors.Is(context.Cause(ctx), flow.ErrCancelled); {
	case ctx.Err() == nil || err == nil:
	case off:
		return cancelled(reply, res, m), drop(ctx, recheck, nil)
	default:
		m.note(nil)
		return reply, drop(ctx, recheck, err)
	}
	if err != nil && shared.Err() != nil {
		err = context.Cause(shared) // the calls beside it used up what was left, or it is not needed any more
	}
	reply = reply.with(res, m)
	notes, undue, werr := recheck(ctx)
	reply.Notes = append(reply.Notes, notes...)
	if werr != nil {
		return reply, werr
	}
	if durable.Unfit(err) { // the disk's fault, not the agent's: the call is made again when it is right
		return reply, err
	}
	if err != nil && undue == nil {
		reply.Failure = flow.AsFailure(err)
		if errors.Is(err, proc.ErrNoFolder) { // somebody removed it
			reply.Failure.Code = string(trellis.WorktreeFailed)
		}
		if r.Repair != nil && reply.Failure.Code == string(trellis.ContextOverflow) { // shorter context would not help
			reply.Failure = invalidAnswer(r, Reply{Problems: r.Repair.Problems, Text: r.Repair.Previous})
			reply.Failure.Detail += "; there is no room left in the session to mend it"
		}
		reply.Failure.Detail = Truncate(reply.Failure.Detail, 4*maxSentence)
		if reply.Failure.At.IsZero() {
			reply.Failure.At = a.now().UTC()
		}
		return a.keepAndParse(r, res, dir, reply, true)
	}
	reply.Failure = undue
	return a.keepAndParse(r, res, dir, reply, undue != nil)
}

// with is the reply with what an agent's program told, nil for nothing.
func (r Reply) with(res *agents.Result, m *meter) Reply {
	if res != nil {
		r.Session, r.Usage, r.ToolCalls, r.Stop = res.Session, res.Usage, res.ToolCalls, res.Stop
		r.Sandbox, r.Model = res.Sandbox, res.Model
		m.report(res.Usage) // which may be all that is ever told
	}
	r.Usage.Seconds = m.seconds()
	return r
}

// cancelled is the reply of a call that was under way when its run was cancelled: what it used counts.
func cancelled(r Reply, res *agents.Result, m *meter) Reply {
	r = r.with(res, m)
	r.Failure = &flow.Failure{Code: Cancelled, At: m.caller.now().UTC()}
	return r
}

// Watcher checks after a call what the call left behind, and undoes what it can. A change is noted, or fails the call.
type Watcher = func(context.Context) (notes []string, undue *flow.Failure, err error)

// drop ends the watch of a call that came to nothing because of err, also after the end of ctx.
func drop(ctx context.Context, w Watcher, err error) error {
	_, _, werr := w(context.WithoutCancel(ctx))
	return errors.Join(err, werr)
}

func (a *Caller) watch(ctx context.Context, c flow.Call, r Request) (Watcher, error) {
	if a.Watch == nil || r.Permission == trellis.PermitNone { // who has no tools changes nothing
		return func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil }, nil
	}
	return a.Watch(ctx, c, r)
}

func (a *Caller) request(c flow.Call, r Request, p templates.Prompt, dir string) agents.Request {
	req := agents.Request{
		Role: r.Role, Prompt: p.Text, System: p.System, Dir: r.Dir, Permission: r.Permission, Model: r.Model, Session: r.Session,
		RunDir: dir, Marker: a.Marker,
		Limits: r.Limits.ofAgent(),
	}
	if a.Env != nil {
		req.Env = a.Env(c, r)
	}
	return req
}

func (a *Caller) events(c flow.Call, r Request, dir string) func(agents.Event) {
	known := false
	return func(e agents.Event) {
		if e.Kind == agents.EventSession && e.Session != "" && !known {
			known = a.Disk.WriteFile(filepath.Join(dir, sessionFile), []byte(e.Session), 0o600) == nil // a loss costs a fresh session
		}
		if a.Event != nil {
			a.Event(c, r, e)
		}
	}
}

func (a *Caller) mask(s string) string {
	if a.Redact == nil {
		return s
	}
	return a.Redact(s)
}

func (a *Caller) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// Sum is the SHA-256 of data, in hex.
func Sum(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
