package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// exitPattern matches how a program ended in the detail of a failure.
var exitPattern = trellis.Pattern(`\b(exit(?:ed with| status)? \d+|signal:? [a-zA-Z0-9]+)`)

// CrashText describes the failure of an agent's call that is retried.
func CrashText(code trellis.Code, detail string) string {
	switch code {
	case trellis.AgentExit, trellis.AgentSignal:
		how := exitPattern().FindStringIndex(detail)
		if how == nil {
			return "agent crashed: " + clip(detail)
		}
		said := strings.TrimLeft(detail[how[1]:], ":;, \n")
		return strings.TrimSuffix("agent crashed ("+detail[how[0]:how[1]]+"): "+clip(said), ": ")
	case trellis.TimeoutIdle, trellis.TimeoutWall:
		return "agent timed out: " + clip(detail)
	}
	return strings.TrimSuffix(string(code)+": "+clip(detail), ": ")
}

// clip returns the first line of a text, shortened.
func clip(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return text.Clip(s, 120)
}

// Text describes what the task waits for and until when, as of now.
func (w Wait) Text(now time.Time) string {
	left := ""
	if !w.Until.IsZero() {
		left = timePhrase(w.Until, now)
	}
	switch w.For {
	case "backoff":
		return strings.TrimPrefix(w.Why+"; ", "; ") + w.Short(now)
	case "slot":
		return "queued (" + w.Why + ")"
	}
	words := w.phrase()
	switch {
	case w.Why == "" || w.Why == w.For:
	case w.For == "checks":
		words += " " + w.Why
	case w.For == "dependency":
		words += " " + strings.TrimPrefix(w.Why, "dependency ")
	case strings.HasPrefix(w.Why, "approval "):
		words = "waits for " + w.Why
	default:
		words += ": " + w.Why
	}
	return strings.TrimSpace(words + " " + left)
}

// Short is like Words without the reason, for places with little room.
func (w Wait) Short(now time.Time) string {
	words := w.phrase()
	switch {
	case w.For == "backoff" && w.Attempt > 0 && w.Of > 0:
		words = fmt.Sprintf("attempt %d of %d", w.Attempt, w.Of)
	case w.For == "backoff" && w.Attempt > 0:
		words = fmt.Sprintf("attempt %d", w.Attempt)
	case w.For == "slot":
		words = "queued"
	}
	if !w.Until.IsZero() {
		words += " " + timePhrase(w.Until, now)
	}
	return words
}

// phrase returns the words for what the task waits for.
func (w Wait) phrase() string {
	about := map[string]string{"backoff": "next attempt", "rate_limit": "waits for the rate limit", "provider": "waits for the provider", "approval": "waits for approval", "trust": "waits for trust",
		"dependency": "waits for", "checks": "waits for", "time": "waits", "budget": "waits for a budget", "person": "waits for somebody", "watcher": "waits for a watcher"}[w.For]
	return cmp.Or(about, "waits")
}

// GroupText describes what several tasks wait for, for all waits of this kind.
func (w Wait) GroupText() string {
	switch w.For {
	case "approval", "trust":
		return "waiting for " + w.For
	case "slot":
		return "queued"
	case "rate_limit":
		return "waiting for a rate limit"
	case "provider", "budget", "watcher":
		return "waiting for a " + w.For
	case "dependency":
		return "waiting for others"
	case "time", "backoff":
		return "waiting for the time"
	}
	return "waiting for somebody"
}

// IdleText describes since when a watcher has had nothing to do, and how many tasks wait for what.
func IdleText(since time.Time, waits []Event) string {
	counts := map[string]int{}
	var sorts []string
	for _, e := range waits {
		sort := e.Wait.GroupText()
		if counts[sort]++; counts[sort] == 1 {
			sorts = append(sorts, sort)
		}
	}
	for i, sort := range sorts {
		sorts[i] = fmt.Sprintf("%d %s", counts[sort], sort)
	}
	if len(sorts) == 0 {
		sorts = []string{"no task waits"}
	}
	return "idle since " + since.Local().Format(time.TimeOnly) + ": " + strings.Join(sorts, ", ")
}

// timePhrase describes a time as of now: in seconds if it is near, else by the clock.
func timePhrase(at, now time.Time) string {
	left := at.Sub(now).Round(time.Second)
	switch {
	case left <= 0:
		return "now"
	case left < 2*time.Minute:
		return fmt.Sprintf("in %d s", int(left.Seconds()))
	case left < 20*time.Hour:
		return "until " + at.Local().Format(time.TimeOnly)
	}
	return "until " + at.Local().Format(time.DateTime)
}

// Text describes how a command ended: verify ✗ 1 of 2: go test ./... (exit 1).
func (c Check) Text(phase string) string {
	mark, end := "✓", "passed"
	switch {
	case c.Failed():
		mark, end = "✗", fmt.Sprintf("exit %d", c.Code)
	case c.Code != 0 && phase == "baseline":
		mark, end = "!", fmt.Sprintf("exit %d, before any work", c.Code)
	case c.Code != 0:
		mark, end = "!", fmt.Sprintf("exit %d, as before the work", c.Code)
	}
	return fmt.Sprintf("%s %s %d of %d: %s (%s)", phase, mark, c.N, c.Of, c.Command, end)
}

// NextAfter returns the command that a person would run after a run that ended with status, or "".
func NextAfter(status trellis.Status, task string) string {
	switch status {
	case trellis.Review:
		return "trellis diff " + trellis.ShellWord(task)
	case trellis.Failed, trellis.Cancelled:
		return "trellis retry " + trellis.ShellWord(task)
	}
	return ""
}

// Summary returns one line about how a run ended.
func (o Outcome) Summary() string {
	parts := []string{string(o.Status) + " in " + text.Seconds(o.Seconds)}
	if o.Rounds > 0 {
		parts = append(parts, text.Count(o.Rounds, "round"))
	}
	parts = append(parts, text.UsageParts(o.Usage)...)
	if files, added, deleted := o.Changes(); files > 0 {
		parts = append(parts, fmt.Sprintf("%s +%d -%d", text.Count(files, "file"), added, deleted))
	}
	if o.Criteria > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d criteria met", o.Met, o.Criteria))
	}
	return strings.Join(parts, " · ")
}

// Changes returns the number of changed files and of added and deleted lines according to Stat.
func (o Outcome) Changes() (files, added, deleted int) {
	for line := range strings.SplitSeq(strings.TrimSpace(o.Stat), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		n, a, d := 1, 0, 0
		_, err := fmt.Sscanf(strings.Join(fields[len(fields)-2:], " "), "+%d -%d", &a, &d)
		if strings.HasPrefix(line, "… and ") { // the files that are not listed; earlier versions stored no line counts for them
			_, err = fmt.Sscan(fields[2], &n)
		}
		if err == nil {
			files, added, deleted = files+n, added+a, deleted+d
		}
	}
	return files, added, deleted
}
