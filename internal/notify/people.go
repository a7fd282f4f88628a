package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	// batchDelay is how long a message waits for other events of the same time.
	batchDelay = 2 * time.Second
	// messageInterval is the minimum time between two messages to the same place.
	messageInterval = 15 * time.Second
)

// Failing says why people can't be told in one place.
type Failing struct {
	Name  string
	Since time.Time
	Error string
}

// Failing returns the places where people can't be told, as recorded in the book.
func (n *Notifier) Failing() (list []Failing) {
	b := n.readBook()
	for _, h := range n.configuredHooks() {
		if f, ok := b.failing[h.key]; ok {
			list = append(list, f)
		}
	}
	return list
}

// toldKey returns the key in book.toldStates for an event and a hook.
func toldKey(hook string, e *Event) string {
	what := string(e.Status)
	if e.Event != "" {
		what = e.Event + e.Budget
	}
	return strings.Join([]string{e.Task, hook, what}, "|")
}

// toldStatesOf returns keys and states of what people were told of a task, alternately.
func (b *book) toldStatesOf(task string) (list []string) {
	for key, state := range b.toldStates {
		if strings.HasPrefix(key, task+"|") {
			list = append(list, key, state)
		}
	}
	return list
}

// runNumber returns the number of the run in which a task gets the status now: one that had ended and goes on is in a new run.
func (b *book) runNumber(task string, now trellis.Status) int {
	ended := []trellis.Status{trellis.Rejected, trellis.Failed, trellis.Cancelled, trellis.Review}
	before := trellis.Status(b.lastStatus[task])
	if slices.Contains(ended, before) && !slices.Contains(ended, now) && now != trellis.Completed {
		return b.runs[task] + 1
	}
	return b.runs[task]
}

// applyMessage applies the result of a message to the book.
func (b *book) applyMessage(r record) {
	switch {
	case r.Kind == kindSent:
		b.sentAt[r.Hook] = r.At
		delete(b.failing, r.Hook)
		delete(b.heldUntil, r.Hook)
	case r.Error != "":
		f := b.failing[r.Hook]
		if f.Since.IsZero() {
			f.Since = r.At
		}
		b.failing[r.Hook] = Failing{r.Name, f.Since, r.Error}
		b.heldUntil[r.Hook] = r.Until
	}
	b.pending = slices.DeleteFunc(b.pending, func(p pending) bool {
		return p.hook == r.Hook && slices.Contains(r.IDs, p.event.ID) && (r.Kind == kindSent || r.Kind == kindDropped)
	})
	for i, p := range b.pending {
		if p.hook != r.Hook {
			continue
		}
		if b.pending[i].heldUntil = b.heldUntil[r.Hook]; slices.Contains(r.IDs, p.event.ID) {
			b.pending[i].at, b.pending[i].trying = r.At, r.Kind == kindTrying
			if r.Kind == kindFailed {
				b.pending[i].tries++
			}
		}
	}
}

// delayMessages returns the pending events. Messages to people wait for events of the same time, and for a pause between each other.
func (n *Notifier) delayMessages(b *book) []pending {
	n.mu.Lock()
	closing := n.closing
	n.mu.Unlock()
	first, last := map[string]time.Time{}, map[string]bool{} // last: send now, since no process may be left to do it later
	for _, p := range b.pending {
		last[p.hook] = last[p.hook] || closing && p.event.Event == config.Watcher
		if at, ok := first[p.hook]; !ok || p.event.At.Before(at) {
			first[p.hook] = p.event.At
		}
	}
	for i, p := range b.pending {
		if _, ok := n.peopleHook(p.hook); !ok || last[p.hook] {
			continue
		}
		gathered := first[p.hook].Add(batchDelay)
		if closing {
			gathered = time.Time{}
		}
		for _, at := range []time.Time{gathered, b.sentAt[p.hook].Add(messageInterval)} {
			if at.After(b.pending[i].heldUntil) && at.Sub(n.Now()) <= messageInterval { // else the clock was set back
				b.pending[i].heldUntil = at
			}
		}
	}
	return b.pending
}

// peopleHook returns the hook with this key if it sends messages to people.
func (n *Notifier) peopleHook(key string) (hook, bool) {
	for _, h := range n.configuredHooks() {
		if h.key == key && h.channel != nil {
			return h, true
		}
	}
	return hook{}, false
}

// pendingFor returns the events pending for one hook.
func pendingFor(list []pending, hook string) (same []pending) {
	for _, p := range list {
		if p.hook == hook {
			same = append(same, p)
		}
	}
	return same
}

// dropInterrupted drops events of messages that a killed process was sending: they may have arrived. The caller holds the send lock.
func (n *Notifier) dropInterrupted() {
	lost := map[string][]string{}
	for _, p := range n.readBook().pending {
		if p.trying {
			lost[p.hook] = append(lost[p.hook], p.event.ID)
		}
	}
	for hook, ids := range lost {
		n.say("a message about %s may or may not have arrived: it was being sent when a process was killed", text.Count(len(ids), "change"))
		n.recordMessage(record{Kind: kindDropped, IDs: ids, Hook: hook})
	}
}

// sendMessage sends one message about all events pending for a hook. It records them first, so that they are never sent twice.
func (n *Notifier) sendMessage(ctx context.Context, h hook, list []pending) {
	ids, events, tries := make([]string, len(list)), make([]*Event, len(list)), 0
	for i, p := range list {
		ids[i], events[i], tries = p.event.ID, p.event, max(tries, p.tries+1)
	}
	if !n.recordMessage(record{Kind: kindTrying, IDs: ids, Hook: h.key, Name: h.name}) {
		return
	}
	r := record{Kind: kindSent, IDs: ids, Hook: h.key, Name: h.name}
	if err := h.channel.send(ctx, n, compose(digest(ids), events)); err != nil {
		r.Kind, r.Error, r.Until = kindFailed, n.Redact(err.Error()), n.Now().UTC().Add(firstRetryDelay<<(2*(min(tries, Tries-1)-1)))
		if wait, ok := errors.AsType[retryLaterError](err); ok && n.Now().Add(wait.after).After(r.Until) {
			r.Until = n.Now().UTC().Add(wait.after)
		}
		if errors.As(err, new(refusedError)) || errors.As(err, new(uncertainError)) {
			r.Kind = kindDropped
		}
		if _, known := n.readBook().failing[h.key]; !known {
			n.say("%s can't be notified about tasks: %s; next: trellis notify test %s", h.name, r.Error, trellis.ShellWord(h.name))
		}
	}
	if r.Kind == kindFailed {
		n.dropExhausted(r, list)
	}
	n.recordMessage(r)
}

// dropExhausted drops the events of a failed message that were tried often enough; later ones are tried again.
func (n *Notifier) dropExhausted(r record, list []pending) {
	r.Kind, r.IDs = kindDropped, nil
	for _, p := range list {
		if p.tries+1 >= Tries {
			r.IDs = append(r.IDs, p.event.ID)
		}
	}
	if len(r.IDs) > 0 {
		n.recordMessage(r)
	}
}

// recordMessage records a message, before it is sent and after. If it can't, it returns false and this process sends none of it.
func (n *Notifier) recordMessage(r record) bool {
	_, err := n.addRecords(func(*book) []record { return []record{r} })
	if err == nil {
		return true
	}
	n.say("messages are not sent by this process any more: %v", n.Redact(err.Error()))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unrecorded == nil {
		n.unrecorded = map[string]bool{}
	}
	for _, id := range r.IDs {
		n.unrecorded[id+" "+r.Hook] = true
	}
	return false
}

func digest(ids []string) string {
	sorted := slices.Clone(ids)
	sort.Strings(sorted)
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Test sends one message for the entry c at once. A command or webhook gets an event that belongs to no task.
func (n *Notifier) Test(ctx context.Context, c config.Notify) error {
	h := newHook(c)
	id := "test@" + n.Now().UTC().Format("20060102T150405.000000")
	if h.channel == nil {
		return h.send(ctx, n, &Event{Version: 1, ID: id, At: n.Now().UTC(), Repo: n.Root, Title: "A test of your notifications", Event: "test"})
	}
	return h.channel.send(ctx, n, message{id: digest([]string{id}), title: "Trellis: a test of your notifications",
		lines: []string{"notified here: " + strings.Join(h.events, ", ")}})
}

func kindOf(c config.Notify) string {
	switch {
	case c.Kind != "":
		return c.Kind
	case len(c.Command) > 0:
		return config.ByCommand
	}
	return config.ByWebhook
}

// KindAndName returns the kind and the name of an entry of the settings.
func KindAndName(c config.Notify) (kind, name string) { return kindOf(c), newHook(c).name }
