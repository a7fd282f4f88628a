package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Budgets say what agents used today and what is left of the day's budgets.
type Budgets struct{ *Site }

// Budgets works on s.
func (s *Site) Budgets() Budgets { return Budgets{s} }

// ledger is what the agents of a repository used on a local day: a file for each day, with a line for each time that
// one told. All processes append to it, each in one write, and read what the others wrote. Lines are not synced; torn
// and foreign ones mean nothing. A large file is folded into one line.
type ledger struct {
	mu   sync.Mutex
	day  string
	read int64         // bytes of that day's file
	head []byte        // how it began
	used trellis.Usage // by those
	lost trellis.Usage // by lines that could not be written
}

// keepDays is how long the ledger of a day is kept.
const keepDays = 14

func (s Budgets) ledgers() string {
	return filepath.Join(s.Store.Root, ".trellis", ".runtime", "spend")
}

// Today is what agents used today, in this repository and by local time.
func (s Budgets) Today() (trellis.Usage, error) {
	l := &s.shared().spent
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total(s.ledgers(), s.Clock())
}

// spend takes in what a call of a task's used, and says what is left of the day's budgets.
func (s Budgets) spend(dir string, c flow.Call, more trellis.Usage) (agentcall.Budget, error) {
	if more != (trellis.Usage{}) {
		raw, err := json.Marshal(spending{Task: filepath.Base(dir), Call: c.Key(), Used: more})
		if err != nil {
			return agentcall.Budget{}, fmt.Errorf("encoding what %s used: %w", c.ID, err)
		}
		s.shared().spent.add(s.Site, raw, more)
	}
	return s.BudgetLeft()
}

// rest is what is left of the day's budgets.
func (s Budgets) BudgetLeft() (r agentcall.Budget, err error) {
	l := s.Config.Limits
	if l.DayTokens <= 0 && l.DayCostUSD <= 0 {
		return r, nil
	}
	used, err := s.Today()
	if err != nil {
		return r, fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	now := s.Clock()
	r.Until = midnight(now)
	switch {
	case l.DayTokens > 0 && used.Tokens() >= l.DayTokens:
		r.Exhausted = flow.Fail(string(trellis.BudgetTokens), "the day's tasks used %d tokens of limits.day_tokens, which is %d", used.Tokens(), l.DayTokens)
	case l.DayCostUSD > 0 && used.CostUSD != nil && *used.CostUSD >= l.DayCostUSD:
		r.Exhausted = flow.Fail(string(trellis.BudgetCost), "the day's tasks cost $%.2f of limits.day_cost_usd, which is $%.2f", *used.CostUSD, l.DayCostUSD)
	case l.DayCostUSD > 0 && used.CostUSD != nil:
		r.CostUSD = l.DayCostUSD - *used.CostUSD
	case l.DayCostUSD > 0:
		r.CostUSD = l.DayCostUSD
	}
	if r.Exhausted != nil {
		r.Exhausted.At, r.Exhausted.ResumeAt = now.UTC(), r.Until
	}
	return r, nil
}

// midnight is when the day of a time ends.
func midnight(t time.Time) time.Time {
	y, m, d := t.Local().Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, time.Local)
}

// add appends a line. What can't be written counts in this process all the same.
func (l *ledger) add(s *Site, line []byte, used trellis.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, dir := s.Clock(), s.Budgets().ledgers()
	l.turn(dir, now)
	path := l.path(dir)
	if err := errors.Join(s.Disk.Step("note", path), appendLine(s.Disk, path, line)); err != nil {
		l.lost = l.lost.Add(used)
	}
}

func (l *ledger) path(dir string) string { return filepath.Join(dir, l.day+".jsonl") }

// turn begins the file of another day, and removes those that are old.
func (l *ledger) turn(dir string, now time.Time) {
	day := now.Local().Format(time.DateOnly)
	if day == l.day {
		return
	}
	l.day, l.lost = day, trellis.Usage{}
	l.anew()
	old := now.Local().AddDate(0, 0, -keepDays).Format(time.DateOnly)
	names, _ := filepath.Glob(filepath.Join(dir, "????-??-??.jsonl")) // the next one looks again
	for _, name := range names {
		if filepath.Base(name) < old {
			os.Remove(name)
		}
	}
}

// anew has the file read from its beginning.
func (l *ledger) anew() { l.read, l.head, l.used = 0, nil, trellis.Usage{} }

// total reads what was written since it read last.
func (l *ledger) total(dir string, now time.Time) (trellis.Usage, error) {
	l.turn(dir, now)
	f, err := durable.OpenBelow(dir, l.day+".jsonl", durable.AnySize)
	if errors.Is(err, fs.ErrNotExist) {
		l.anew()
		return l.lost, nil
	}
	if err != nil {
		return l.lost, fmt.Errorf("reading what was used today: %w", err)
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return l.lost, fmt.Errorf("reading what was used today: %w", err)
	}
	if st, err := f.Stat(); err == nil && st.Size() < l.read || !bytes.HasPrefix(head[:n], l.head) { // folded, or made anew
		l.anew()
	}
	l.head = head[:n]
	data, err := io.ReadAll(io.NewSectionReader(f, l.read, durable.MaxJournal))
	if err != nil {
		return l.lost, fmt.Errorf("reading what was used today: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	l.read += int64(len(data))
	l.used = l.used.Add(sum(data).Used)
	return l.used.Add(l.lost), nil
}

// raised are the messages that end a run's waits for another day: there is some budget left, after all.
func (s Budgets) raised(h *journal.History) (list []journal.Message) {
	if r, err := s.BudgetLeft(); err != nil || r.Exhausted != nil {
		return nil
	}
	for i, c := range h.Calls {
		if c.Activity == "await:"+agentcall.BudgetRaised && !c.Done {
			list = append(list, journal.Message{ID: fmt.Sprintf("%s-%d", agentcall.BudgetRaised, i), Signal: agentcall.BudgetRaised})
		}
	}
	return list
}

// resumes is when a paused task goes on: at once, when it waits for another day and there is some budget left, after
// all.
func (s Budgets) resumes(t *taskdir.Task) time.Time {
	if code := t.Pipeline.Failure.Code; code == trellis.BudgetTokens || code == trellis.BudgetCost {
		if r, err := s.BudgetLeft(); err == nil && r.Exhausted == nil {
			return time.Time{}
		}
	}
	return t.Pipeline.ResumeAt
}

// Early reports whether a paused task goes on before the time that it was paused until.
func (l Assessment) Early() bool { return l.Task.Status == trellis.Paused && l.At.IsZero() }

// sleeper is the call that a run sleeps after, and why; nil when nothing says so.
func SleepingCall(dir string) (r agentcall.Request, fail *flow.Failure) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return r, nil
	}
	for _, c := range slices.Backward(h.Calls) {
		var reply agentcall.Reply
		if c.Done && json.Unmarshal(c.Out, &reply) == nil && reply.Failure != nil && json.Unmarshal(c.In, &r) == nil {
			return r, reply.Failure
		}
	}
	return r, nil
}
