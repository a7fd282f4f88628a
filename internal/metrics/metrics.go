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

// maxAge is how long collected metrics are reused, so that several scrapers cost no more than one.
const maxAge = 5 * time.Second

// Collector collects the metrics of a repository. It caches data, and reads only what was written since the last time. It is
// safe for concurrent use.
type Collector struct {
	source Source

	mu          sync.Mutex
	text        []byte
	collectedAt time.Time
}

// New returns a collector for a source.
func New(from Source) *Collector { return &Collector{source: from} }

// ContentType is the media type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes all metrics.
func (c *Collector) Write(w io.Writer) error {
	text, err := c.cachedPage()
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// cachedPage returns the page with all metrics, at most a few seconds old.
func (c *Collector) cachedPage() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.source.Now()
	if age := began.Sub(c.collectedAt); c.text != nil && age >= 0 && age < maxAge {
		return c.text, nil
	}
	p, err := c.source.collect()
	if err != nil {
		return nil, err
	}
	now := c.source.Now()
	p.writeValue(collectSeconds, now.Sub(began).Seconds())
	c.text, c.collectedAt = p.Bytes(), now
	return c.text, nil
}

// collect reads all data once.
func (s Source) collect() (*page, error) {
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
	p.writeValue(buildInfo, 1, s.Version, runtime.Version())
	p.addTasks(tasks)
	p.addWatcher(reader.Watcher, tasks)
	if b, err := s.Budget(); err == nil { // else it is unknown what was used, and these metrics are missing
		p.addBudget(b)
	}
	p.addCalls(work)
	p.addRuns(work)
	p.writeValue(unreadable, float64(len(work.Problems)))
	return p, nil
}

// addTasks adds the metrics about the state of tasks.
func (p *page) addTasks(all []status.Task) {
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
			waiting.add(1, reasonLabel(t.WaitingFor))
		}
		broken += oneIf(len(t.Problems) > 0)
		needing += oneIf(t.NeedsPerson())
		running += oneIf(t.HeldBy != nil)
	}
	p.writeCounts(tasksByStatus, byStatus)
	p.writeCounts(tasksWaiting, waiting)
	p.writeValue(tasksNeeding, float64(needing))
	p.writeValue(tasksRunning, float64(running))
	p.writeValue(tasksBroken, float64(broken))
}

// addWatcher adds the metrics about the watcher and how busy it is.
func (p *page) addWatcher(w pulse.State, all []status.Task) {
	p.writeValue(watcherUp, float64(oneIf(w.Alive && !w.Hangs)))
	if !w.Last.IsZero() {
		p.writeValue(watcherBeat, float64(w.Last.UnixMilli())/1e3)
	}
	queued := 0
	for i := range all {
		queued += oneIf(all[i].WaitingFor == status.ForSlot)
	}
	p.writeValue(watcherSlots, float64(w.Beat.Parallel))
	p.writeValue(watcherBusy, float64(len(w.Beat.Running)))
	p.writeValue(watcherQueue, float64(queued))
}

// addBudget adds what was used of the day's budgets, and the limits that are set.
func (p *page) addBudget(b Budget) {
	p.writeValue(dayTokens, float64(b.Used.Tokens()))
	if b.Tokens > 0 {
		p.writeValue(dayTokensLimit, float64(b.Tokens))
	}
	cost := 0.0
	if b.Used.CostUSD != nil {
		cost = *b.Used.CostUSD
	}
	p.writeValue(dayCost, cost)
	if b.CostUSD > 0 {
		p.writeValue(dayCostLimit, b.CostUSD)
	}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
