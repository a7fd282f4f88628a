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

// nearlyUsedRatio is the used share of a budget from which people are told.
const nearlyUsedRatio = 0.8

// RecordUsage records what agents used today and for a task. People are told of each budget that is nearly used up, once a day and
// once for each run of a task.
func (n *Notifier) RecordUsage(t *taskdir.Task, today trellis.Usage, l config.Limits) {
	now := n.Now().Format(time.DateOnly)
	for _, b := range nearlyUsed(today, l.DayTokens, l.DayCostUSD, 0) {
		if n.isFirstCheck(now + " " + b.budget) {
			n.notifyPeople(&Event{ID: "budget:" + now + ":" + b.budget, Title: "budget of " + now, Event: config.Spent, Budget: b.budget, Failure: Failure{Detail: b.used}}, now)
		}
	}
	for _, b := range nearlyUsed(t.Pipeline.Usage, l.Tokens, l.CostUSD, l.Seconds) {
		if n.isFirstCheck(fmt.Sprint(t.ID, "@", t.Pipeline.Revision, " ", b.budget)) {
			n.notifyPeople(&Event{ID: t.ID + "@budget:" + b.budget + n.Now().UTC().Format(":20060102T150405.000000"), Task: t.ID, Title: "budget of " + firstNonBlank(t.ShownTitle(), t.ID), Event: config.Spent, Budget: b.budget,
				Status: t.Status, Failure: Failure{Detail: b.used}}, "")
		}
	}
}

// isFirstCheck reports whether this process has not checked the book for a budget yet: usage is reported many times a minute.
func (n *Notifier) isFirstCheck(budget string) bool {
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

// budgetUse is how much of a budget is used.
type budgetUse struct{ budget, used string }

// nearlyUsed returns the budgets that are nearly used up. A limit of 0 means that there is none.
func nearlyUsed(u trellis.Usage, tokens int64, cost float64, seconds int64) (list []budgetUse) {
	if cost > 0 && u.CostUSD != nil && *u.CostUSD >= nearlyUsedRatio*cost {
		list = append(list, budgetUse{"cost", fmt.Sprintf("%s of %s", text.Cost(u), text.USD(cost, false))})
	}
	if tokens > 0 && float64(u.Tokens()) >= nearlyUsedRatio*float64(tokens) {
		list = append(list, budgetUse{"tokens", fmt.Sprintf("%d of %d tokens", u.Tokens(), tokens)})
	}
	if seconds > 0 && u.Seconds >= nearlyUsedRatio*float64(seconds) {
		list = append(list, budgetUse{"seconds", fmt.Sprintf("%s of %s of agents' time", text.Seconds(u.Seconds), text.Seconds(float64(seconds)))})
	}
	return list
}

// WatcherStopped records that the watcher that started at begun has stopped, and why.
func (n *Notifier) WatcherStopped(begun time.Time, why string) {
	id := "watcher:" + begun.UTC().Format("20060102T150405.000000")
	n.notifyPeople(&Event{ID: id, Title: "the watcher", Event: config.Watcher, Failure: Failure{Detail: why}}, id)
}

// notifyPeople tells people of an event that is not a status, once for each state. An empty state means the task's current run.
func (n *Notifier) notifyPeople(e *Event, state string) {
	e.Version, e.At, e.Repo, e.Failure.Detail = 1, n.Now().UTC(), n.Root, n.Redact(e.Failure.Detail)
	n.write(func(b *book) []record {
		state = cmp.Or(state, fmt.Sprintf("run %d", b.runs[e.Task]))
		r := record{Kind: kindEvent, ID: e.ID, Task: e.Task, State: state, Event: e, To: n.peopleRecipients(b, e, state)}
		if len(r.To) == 0 {
			return nil
		}
		return []record{r}
	})
}

// HearsOf reports whether anybody gets messages about a topic.
func (n *Notifier) HearsOf(topic string) bool {
	return slices.ContainsFunc(n.configuredHooks(), func(h hook) bool { return h.notifies(topic) })
}
