package notify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// nearly is the used share of a budget from which people are told.
const nearly = 0.8

// Spent records what agents used today and for a task. People are told of each budget that is nearly used up, once a day and
// once for each run of a task.
func (n *Notifier) Spent(t *taskdir.Task, today trellis.Usage, l config.Limits) {
	now := n.Now().Format(time.DateOnly)
	for _, b := range nearlyUsed(today, l.DayTokens, l.DayCostUSD, 0) {
		if n.firstHeard(now + " " + b.of) {
			n.occasion(&Event{ID: "budget:" + now + ":" + b.of, Title: "budget of " + now, Event: config.Spent, Budget: b.of, Failure: Failure{Detail: b.used}}, now)
		}
	}
	for _, b := range nearlyUsed(t.Pipeline.Usage, l.Tokens, l.CostUSD, l.Seconds) {
		if n.firstHeard(fmt.Sprint(t.ID, "@", t.Pipeline.Revision, " ", b.of)) {
			n.occasion(&Event{ID: t.ID + "@budget:" + b.of + n.Now().UTC().Format(":20060102T150405.000000"), Task: t.ID, Title: "budget of " + firstOf(t.ShownTitle(), t.ID), Event: config.Spent, Budget: b.of,
				Status: t.Status, Failure: Failure{Detail: b.used}}, "")
		}
	}
}

// firstHeard reports whether this process has not checked the book for a budget yet: usage is reported many times a minute.
func (n *Notifier) firstHeard(budget string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.budgets == nil || len(n.budgets) > maxBudgets {
		n.budgets = map[string]bool{}
	}
	first := !n.budgets[budget]
	n.budgets[budget] = true
	return first
}

// maxBudgets is how many budgets are remembered.
const maxBudgets = 1000

// share is how much of a budget is used.
type share struct{ of, used string }

// nearlyUsed returns the budgets that are nearly used up. A limit of 0 means that there is none.
func nearlyUsed(u trellis.Usage, tokens int64, cost float64, seconds int64) (list []share) {
	if cost > 0 && u.CostUSD != nil && *u.CostUSD >= nearly*cost {
		list = append(list, share{"cost", fmt.Sprintf("%s of %s", text.Cost(u), text.USD(cost, false))})
	}
	if tokens > 0 && float64(u.Tokens()) >= nearly*float64(tokens) {
		list = append(list, share{"tokens", fmt.Sprintf("%d of %d tokens", u.Tokens(), tokens)})
	}
	if seconds > 0 && u.Seconds >= nearly*float64(seconds) {
		list = append(list, share{"seconds", fmt.Sprintf("%s of %s of agents' time", text.Seconds(u.Seconds), text.Seconds(float64(seconds)))})
	}
	return list
}

// WatcherStopped records that the watcher that started at begun has stopped, and why.
func (n *Notifier) WatcherStopped(begun time.Time, why string) {
	id := "watcher:" + begun.UTC().Format("20060102T150405.000000")
	n.occasion(&Event{ID: id, Title: "the watcher", Event: config.Watcher, Failure: Failure{Detail: why}}, id)
}

// occasion tells people of an event that is not a status, once for each state. An empty state means the task's current run.
func (n *Notifier) occasion(e *Event, state string) {
	e.Version, e.At, e.Repo, e.Failure.Detail = 1, n.Now().UTC(), n.Root, n.Redact(e.Failure.Detail)
	n.write(func(b *book) []record {
		state = cmp.Or(state, fmt.Sprintf("run %d", b.runs[e.Task]))
		r := record{Kind: kindEvent, ID: e.ID, Task: e.Task, State: state, Event: e, To: n.people(b, e, state)}
		if len(r.To) == 0 {
			return nil
		}
		return []record{r}
	})
}

// HearsOf reports whether anybody gets messages about a topic.
func (n *Notifier) HearsOf(topic string) bool {
	return slices.ContainsFunc(n.configured(), func(h hook) bool { return h.hears(topic) })
}
