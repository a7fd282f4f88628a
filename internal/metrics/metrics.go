// Package metrics exports the state of a repository's tasks and what they took, in the text format of Prometheus. It uses only
// what packages status and stats read; no label contains the name of a task.
package metrics

import (
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Budget is what agents used today, and the limits for a day.
type Budget struct {
	Used    trellis.Usage
	Tokens  int64   // 0: no limit
	CostUSD float64 // 0: no limit
}

// Source provides the data for the metrics.
type Source struct {
	Tasks   func() status.Reader // reads the current state
	Work    *stats.Reader
	Budget  func() (Budget, error)
	Version string // of Trellis
	Now     func() time.Time
}

// fresh is how long collected metrics are reused, so that several scrapers cost no more than one.
const fresh = 5 * time.Second

// Collector collects the metrics of a repository. It caches data, and reads only what was written since the last time. It is
// safe for concurrent use.
type Collector struct {
	from Source

	mu   sync.Mutex
	text []byte
	at   time.Time
}

// New returns a collector for a source.
func New(from Source) *Collector { return &Collector{from: from} }

// ContentType is the media type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes all metrics.
func (c *Collector) Write(w io.Writer) error {
	text, err := c.collected()
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// collected returns the page with all metrics, at most a few seconds old.
func (c *Collector) collected() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.from.Now()
	if age := began.Sub(c.at); c.text != nil && age >= 0 && age < fresh {
		return c.text, nil
	}
	p, err := c.from.page()
	if err != nil {
		return nil, err
	}
	now := c.from.Now()
	p.value(collectSeconds, now.Sub(began).Seconds())
	c.text, c.at = p.Bytes(), now
	return c.text, nil
}

// page reads all data once.
func (s Source) page() (*page, error) {
	reader := s.Tasks()
	tasks, err := reader.Tasks(status.Filter{})
	if err != nil {
		return nil, err
	}
	work, err := s.Work.Read(time.Time{})
	if err != nil {
		return nil, err
	}
	p := new(page)
	p.value(buildInfo, 1, s.Version, runtime.Version())
	p.tasks(tasks)
	p.watcher(reader.Watcher, tasks)
	if b, err := s.Budget(); err == nil { // else it is unknown what was used, and these metrics are missing
		p.budget(b)
	}
	p.calls(work)
	p.runs(work)
	p.value(unreadable, float64(len(work.Problems)))
	return p, nil
}

// tasks adds the metrics about the state of tasks.
func (p *page) tasks(all []status.Task) {
	byStatus, waiting := counts{}, counts{}
	for _, s := range trellis.Statuses {
		byStatus.add(0, string(s))
	}
	for _, r := range reasons {
		waiting.add(0, r.label)
	}
	broken, needing, running := 0, 0, 0
	for i := range all {
		t := &all[i]
		if t.Status != "" {
			byStatus.add(1, string(t.Status))
		}
		if t.WaitingFor != "" {
			waiting.add(1, reason(t.WaitingFor))
		}
		broken += one(len(t.Problems) > 0)
		needing += one(t.NeedsPerson())
		running += one(t.HeldBy != nil)
	}
	p.each(tasksByStatus, byStatus)
	p.each(tasksWaiting, waiting)
	p.value(tasksNeeding, float64(needing))
	p.value(tasksRunning, float64(running))
	p.value(tasksBroken, float64(broken))
}

// watcher adds the metrics about the watcher and how busy it is.
func (p *page) watcher(w pulse.State, all []status.Task) {
	p.value(watcherUp, float64(one(w.Alive && !w.Hangs)))
	if !w.Last.IsZero() {
		p.value(watcherBeat, float64(w.Last.UnixMilli())/1e3)
	}
	queued := 0
	for i := range all {
		queued += one(all[i].WaitingFor == status.ForSlot)
	}
	p.value(watcherSlots, float64(w.Beat.Parallel))
	p.value(watcherBusy, float64(len(w.Beat.Running)))
	p.value(watcherQueue, float64(queued))
}

// budget adds what was used of the day's budgets, and the limits that are set.
func (p *page) budget(b Budget) {
	p.value(dayTokens, float64(b.Used.Tokens()))
	if b.Tokens > 0 {
		p.value(dayTokensLimit, float64(b.Tokens))
	}
	cost := 0.0
	if b.Used.CostUSD != nil {
		cost = *b.Used.CostUSD
	}
	p.value(dayCost, cost)
	if b.CostUSD > 0 {
		p.value(dayCostLimit, b.CostUSD)
	}
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
