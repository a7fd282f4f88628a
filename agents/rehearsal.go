package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// rehearsal plays a script instead of asking a model.
type rehearsal struct{ o Options }

// notAModel is the notice that is sent before every call.
const notAModel = "rehearsal: no model is involved, this plays a script"

func (p rehearsal) Run(ctx context.Context, r Request, emit func(Event)) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c, err := p.call(r)
	if err != nil {
		return nil, err
	}
	env := p.o.environ(nil, nil, nil, r)
	logs, err := openLogs(r.RunDir, p.o.secrets(env))
	if err != nil {
		return nil, err
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tally{watchdog: newWatchdog(r, p.o.grace(), end), emit: logs.events(emit, end)}
	began := time.Now()
	t.notice(notAModel)
	err = p.play(within, r, c, env, t, logs)
	t.watchdog.stop()
	t.result.Usage.Seconds = time.Since(began).Seconds()
	if t.result.ToolCalls == 0 {
		t.result.ToolCalls = -1 // a script does not explore, and 0 would look like neglect
	}
	if err == nil {
		t.event(Event{Kind: EventResult, Text: t.result.Text})
	}
	return &t.result, errors.Join(err, logs.close())
}

// play carries out a call of the script, in the documented order: wait, write, run, answer, fail.
func (p rehearsal) play(ctx context.Context, r Request, c *scriptCall, env []string, t *tally, logs *logs) error {
	if c.Sleep > 0 {
		if err := patience.Sleep(ctx, c.Sleep); err != nil {
			return err
		}
	}
	if c.hasActions() && r.Permission != trellis.PermitEdit && r.Permission != trellis.PermitFull {
		return fmt.Errorf("%s: a call of role %s writes files or runs commands, which its permission %q does not allow", p.o.script(), r.Role, r.Permission)
	}
	for _, path := range slices.Sorted(maps.Keys(c.Files)) {
		t.tool("write", json.RawMessage(jsonString(path)))
		if err := durable.WriteBelow(r.Dir, path, []byte(c.Files[path]), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	for _, script := range c.Run {
		t.tool("run", json.RawMessage(jsonString(script)))
		argv := proc.Shell(script)
		place, err := p.o.sandboxPlace(ctx, r, argv, Own{})
		if err != nil {
			return err
		}
		t.result.Sandbox = place.Name
		exit, err := proc.Run(ctx, proc.Command{Argv: argv, Dir: r.Dir, Env: slices.Concat(env, place.Env), Stdout: logs.mask, Stderr: logs.mask,
			Marker: r.Marker, Interrupt: true, Grace: p.o.grace(), Launcher: place.Launcher, Files: place.Files})
		network := place.leave("the script", t.notice)
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			return network.explain(fail(trellis.AgentExit, "%q of the script failed: %s", script, ending{Result: exit, stderr: logs.tail.String()}))
		}
	}
	return p.answer(r, c, t)
}

func (p rehearsal) answer(r Request, c *scriptCall, t *tally) error {
	text, answer, err := c.answer()
	if err != nil {
		return fmt.Errorf("%s: %w", p.o.script(), err)
	}
	t.text(text)
	t.result.Answer, t.result.Stop, t.done = answer, "end", true
	if c.Fail != nil {
		return commandFailure(c.Fail.Code, c.Fail.Detail, c.Fail.ResumeAt)
	}
	if f := t.verdict(r, nil, ending{Result: proc.Result{Code: c.Exit}}, false); f != nil {
		return f
	}
	return nil
}

func (p rehearsal) call(r Request) (*scriptCall, error) {
	s, err := readScript(p.o.script())
	if err != nil {
		return nil, err
	}
	calls := s.matching(r.Role, r.Prompt)
	if len(calls) == 0 {
		return nil, &flow.Failure{Code: string(trellis.AgentExit), // the code of a program that fails, but not retried
			Detail: fmt.Sprintf("%s: no call of role %s fits the prompt: add one below roles", p.o.script(), r.Role)}
	}
	n, err := callNumber(r)
	if err != nil {
		return nil, err
	}
	return &calls[min(n, len(calls))-1], nil
}

// callNumber returns how many times the role was called for this task, including this call. The calls are listed in the task's
// run folder: a call that is entered again after a crash finds itself in the list and keeps its number. A request without a task
// always has number 1.
func callNumber(r Request) (int, error) {
	task := lookup(r.Env, "TRELLIS_TASK_DIR")
	call, err := filepath.Rel(task, filepath.Dir(r.RunDir)) // the folder of the activity, with one folder below it for each entry
	if task == "" || err != nil || !filepath.IsLocal(call) {
		return 1, nil
	}
	entry := string(r.Role) + "\t" + filepath.ToSlash(call)
	n, there, err := position(task, entry)
	if err != nil || there {
		return n, err
	}
	if err := appendLine(filepath.Join(task, callsFile), entry); err != nil {
		return 0, fmt.Errorf("counting the calls of a role: %w", err)
	}
	n, _, err = position(task, entry)
	return n, err
}

// callsFile lists the calls of a task.
const callsFile = "run/rehearsal"

// position returns the number of distinct entries of a role up to the given one, and whether that entry is in the list.
func position(task, entry string) (n int, there bool, err error) {
	data, err := durable.ReadBelow(task, callsFile, durable.MaxRecords)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, false, fmt.Errorf("counting the calls of a role: %w", err)
	}
	role, _, _ := strings.Cut(entry, "\t")
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, role+"\t") {
			seen[line] = true
		}
		if line == entry {
			return len(seen), true, nil
		}
	}
	return len(seen) + 1, false, nil
}

// appendLine appends a line in a single write, so that several processes may do so at once.
func appendLine(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := durable.OpenOwn(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
