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

// Files in an activity's folder run/<run>/<activity>/<entry>/, next to the agent's stream.jsonl and stderr.log.
const (
	PromptFile = "prompt.md"
	AnswerFile = "answer.md"
	ResultFile = "result.json"
)

// maxAnswer is the largest structured answer in bytes. It has to fit into a journal record with the other fields.
const maxAnswer = 48 << 10

// Agents provides the agents for roles and their prompts. Its functions may be called concurrently.
type Agents struct {
	// Choose returns the agent of a role. In order of precedence: flag, config, role file, the task's own agent, default.
	Choose func(role trellis.Role, taskAgent, flag string) (Choice, error)
	Open   func(name string) (agents.Agent, error)
	// Render renders the prompt from a template, including the project's changes to the template.
	Render func(name string, slots map[string]string) (templates.Prompt, error)
}

// Caller makes the calls of roles. It may be used for different calls concurrently.
type Caller struct {
	RunDir string // the task's run/ folder
	Disk   *durable.Disk
	Marker string
	Agents Agents
	// Slots returns the values for the slots of a request's template, and notes about what had to be left out.
	Slots func(context.Context, flow.Call, Request) (slots map[string]string, notes []string, err error)
	// Check returns what is wrong with an answer beyond its schema, each as JSON pointer and reason; for free text, what is wrong
	// with the whole answer. Nil: no check.
	Check func(r Request, answer json.RawMessage) []string
	// Mend corrects trivial mistakes in an answer before it is checked, and returns notes about them. Nil: nothing is corrected.
	Mend func(r Request, answer json.RawMessage) (mended json.RawMessage, notes []string)
	Env  func(flow.Call, Request) []string
	// Known returns the answer that an earlier run got to the same request with a prompt of the same SHA-256. The usage of that
	// answer has been counted already. Nil: every call is made.
	Known func(r Request, prompt string) (reply Reply, ok bool)
	// Watch records the state of the files that a request may not change. Nil: nothing is watched.
	Watch func(context.Context, flow.Call, Request) (Recheck, error)
	// Spend records what a call used since the last time Spend was called for it, zero at the beginning, and returns what all
	// calls together may still use. An error prevents a call from starting; once the call has begun, errors are ignored. Nil:
	// usage is not counted.
	Spend func(c flow.Call, more trellis.Usage) (Budget, error)
	// Redact masks known secrets. Nil: nothing is masked.
	Redact func(string) string
	// Event is called for each event of an agent. Nil: no callback.
	Event func(flow.Call, Request, agents.Event)
	Now   func() time.Time

	shared    sharedBudget // usage of calls that run at the same time
	calledOff calledOffCalls
}

// Activities returns the activities for calls of the given roles.
func (a *Caller) Activities(roles ...trellis.Role) (list []flow.Activity) {
	for _, r := range roles {
		list = append(list, flow.Act[Request, Reply](r).With(a.perform))
	}
	return list
}

// perform makes one call. If an earlier entry got a reply that was not recorded, perform returns that reply. If an entry was cut
// off while the agent worked, its session is resumed, and its usage counts.
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
	dir, off, err := a.beginEntry(base, c)
	if off != nil || err != nil {
		return Reply{Failure: off, Usage: lost, Session: session, ToolCalls: -1}, err
	}
	if known, ok, err := a.knownReply(ctx, c, r, dir); ok || err != nil {
		known.Usage = lost
		return known, err
	}
	fail, bound, err := a.applyBudget(c, &r.Limits, lost)
	if fail != nil || err != nil {
		r.explain(fail)
		return Reply{Failure: fail, Usage: lost, Session: cmp.Or(session, r.Session), ToolCalls: -1}, err
	}
	before := interruptedEntry{dir: lastFolder(base, c.Attempt), agent: r.Agent, mayRestart: (session != "" && session != r.Session || r.RestartSession) && r.Repair == nil}
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
		return Reply{}, endWatch(ctx, recheck, err)
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

// knownReply returns the reply that an earlier run got to the same request. That reply costs nothing, so no budget is checked.
func (a *Caller) knownReply(ctx context.Context, c flow.Call, r Request, dir string) (reply Reply, ok bool, err error) {
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

// keepUnsynced writes a file without syncing it. If a power cut loses the file, the only cost is that a call is repeated.
func (a *Caller) keepUnsynced(dir, name string, data []byte) error {
	if err := a.Disk.Step("note", filepath.Join(dir, name)); err != nil {
		return err
	}
	return WriteUnsynced(dir, name, data)
}

// WriteUnsynced writes a file atomically but without syncing it, so that a power cut may lose it.
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

// makeFolder creates the folder of an entry. On the first entry it removes what is there: it belongs to another run of the same
// number whose journal is gone.
func (a *Caller) makeFolder(base string, c flow.Call) (string, error) {
	if _, err := os.Stat(filepath.Dir(a.RunDir)); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err) // the task was removed, and must not be created again
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

// maxSentences is the largest number of problems, and of notes, in a reply.
const maxSentences = 20

// Folder returns the folder of a call's files, relative to run/: <run number>/<activity id>.
func Folder(c flow.Call) string {
	return filepath.Join(c.Run[strings.LastIndexByte(c.Run, '/')+1:], filepath.FromSlash(c.ID))
}

// sessionFile holds the agent's session as soon as it is known, so that a killed run can resume it.
const sessionFile = "session"

// resume returns the reply of an earlier entry that ended but was not recorded, or else the session of one that was cut off.
func (a *Caller) resume(base string, attempt int) (*Reply, string, error) {
	for n := attempt - 1; n > 0; n-- {
		dir := filepath.Join(base, strconv.Itoa(n))
		raw, err := durable.ReadBelow(dir, ResultFile, durable.MaxJournal)
		if err == nil {
			var r Reply
			if json.Unmarshal(raw, &r) == nil {
				return &r, "", nil
			}
			err = fs.ErrNotExist // a power cut lost the content, see keepUnsynced: the call is repeated
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

// prompt renders the request, with before in front of it. If the answer has to be repaired, a session that remembers the request
// gets only the repair; a new session gets the whole request followed by the repair.
func (a *Caller) prompt(ctx context.Context, c flow.Call, r Request, before string) (p templates.Prompt, notes []string, err error) {
	if r.Repair == nil || r.Session == "" {
		slots, notes, err := a.Slots(ctx, c, r)
		if err != nil {
			return p, nil, err
		}
		p, err = a.Agents.Render(cmp.Or(r.Template, string(r.Role)), slots)
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

// maxPrevious is the number of bytes of a refused answer that are sent back with its problems.
const maxPrevious = 16 << 10

// repair renders the prompt for a better answer. A new session is shown the refused answer too, up to maxPrevious bytes.
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

// run runs the agent and reads its answer. Failures of the agent are part of the reply; an error means that the call could not be
// made or its result not be kept.
func (a *Caller) run(ctx context.Context, c flow.Call, r Request, p templates.Prompt, dir string, before interruptedEntry, recheck Recheck) (reply Reply, err error) {
	reply.Prompt = sizeOf(p)
	reply.ToolCalls = -1
	agent, err := a.Agents.Open(r.Agent)
	req := a.request(c, r, p, dir)
	if err == nil && r.Schema != "" {
		req.Schema, err = templates.StructuredOutputSchema(r.Schema)
	}
	if err != nil {
		return reply, endWatch(ctx, recheck, err)
	}
	began := a.now()
	shared, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer a.calledOff.register(c, end)()
	share, fail := a.shared.begin(r.Limits, end)
	if fail != nil {
		fail.At = began.UTC()
		reply.Failure = fail
		return reply, endWatch(ctx, recheck, nil)
	}
	defer share.done()
	m := &meter{caller: a, call: c, dir: dir, began: began, share: share}
	defer m.saveAtIntervals()()
	req.Spent = m.report
	res, err := before.run(shared, agent, req, func() func(agents.Event) { return a.events(c, r, dir) })
	switch off := errors.Is(context.Cause(ctx), flow.ErrCancelled); {
	case ctx.Err() == nil || err == nil:
	case off:
		return cancelledReply(reply, res, m), endWatch(ctx, recheck, nil)
	default:
		m.saveUsage(nil)
		return reply, endWatch(ctx, recheck, err)
	}
	if err != nil && shared.Err() != nil {
		err = context.Cause(shared) // other calls used up the rest of the budget, or this call was called off
	}
	reply = reply.withResult(res, m)
	notes, undue, werr := recheck(ctx)
	reply.Notes = append(reply.Notes, notes...)
	if werr != nil {
		return reply, werr
	}
	if durable.IsDiskError(err) { // the disk is at fault, not the agent: the call is repeated when the disk is in order
		return reply, err
	}
	if err != nil && undue == nil {
		reply.Failure = flow.AsFailure(err)
		if errors.Is(err, proc.ErrNoFolder) { // the folder was removed
			reply.Failure.Code = string(trellis.WorktreeFailed)
		}
		if r.Repair != nil && reply.Failure.Code == string(trellis.ContextOverflow) { // shortening the context would not help
			reply.Failure = invalidAnswer(r, Reply{Problems: r.Repair.Problems, Text: r.Repair.Previous})
			reply.Failure.Detail += "; there is no room left in the session to fix it"
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

// withResult returns the reply extended by the result of an agent, which may be nil.
func (r Reply) withResult(res *agents.Result, m *meter) Reply {
	if res != nil {
		r.Session, r.Usage, r.ToolCalls, r.Stop = res.Session, res.Usage, res.ToolCalls, res.Stop
		r.Sandbox, r.Model = res.Sandbox, res.Model
		m.report(res.Usage) // may be the only report
	}
	r.Usage.Seconds = m.seconds()
	return r
}

// cancelledReply returns the reply of a call that was under way when its run was cancelled. It includes the usage.
func cancelledReply(r Reply, res *agents.Result, m *meter) Reply {
	r = r.withResult(res, m)
	r.Failure = &flow.Failure{Code: Cancelled, At: m.caller.now().UTC()}
	return r
}

// Recheck checks, after a call, for forbidden changes and undoes what it can. A change is noted, or fails the call.
type Recheck = func(context.Context) (notes []string, undue *flow.Failure, err error)

// endWatch runs the Recheck of a call that ended without an answer, even if ctx has ended, and joins its error with err.
func endWatch(ctx context.Context, w Recheck, err error) error {
	_, _, werr := w(context.WithoutCancel(ctx))
	return errors.Join(err, werr)
}

func (a *Caller) watch(ctx context.Context, c flow.Call, r Request) (Recheck, error) {
	if a.Watch == nil || r.Permission == trellis.PermitNone { // without tools nothing can be changed
		return func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil }, nil
	}
	return a.Watch(ctx, c, r)
}

func (a *Caller) request(c flow.Call, r Request, p templates.Prompt, dir string) agents.Request {
	req := agents.Request{
		Role: r.Role, Prompt: p.Text, System: p.System, Dir: r.Dir, Permission: r.Permission, Model: r.Model, Session: r.Session,
		RunDir: dir, Marker: a.Marker,
		Limits: r.Limits.agentLimits(),
	}
	if a.Env != nil {
		req.Env = a.Env(c, r)
	}
	return req
}

func (a *Caller) events(c flow.Call, r Request, dir string) func(agents.Event) {
	stored := false
	return func(e agents.Event) {
		if e.Kind == agents.EventSession && e.Session != "" && !stored {
			stored = a.Disk.WriteFile(filepath.Join(dir, sessionFile), []byte(e.Session), 0o600) == nil // if it is lost, a new session is used
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

// SHA256Hex returns the SHA-256 of data in hex.
func SHA256Hex(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
