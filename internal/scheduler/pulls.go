package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// How often pull requests are checked: soon while some check has not finished, and less and less often, up to pullRest, while
// nobody answers.
const (
	pullSoon  = 2 * time.Minute
	pullEvery = 10 * time.Minute
	pullRest  = time.Hour
)

// pulls is the watcher's own check of pull requests. It runs beside the loop.
type pulls struct {
	*settings
	notices     *notices
	schedule    *schedule
	next        time.Time // zero: at once
	checking    bool
	checkedOnce bool // at least once
	unanswered  int  // number of checks in a row that got no answer
	reported    map[string]bool
	ended       chan pullCheck
}

// pullCheck is the result of a check of pull requests.
type pullCheck struct {
	runner.ReactionResult
	silent bool
	notes  []string // what could not be found out
	err    error
}

// due reports whether another check is to come. A watch --once makes one.
func (p *pulls) due() bool { return p.asksPulls() && !p.checking && !(p.options.Once && p.checkedOnce) }

// startIfDue begins a check when its time has come.
func (p *pulls) startIfDue(ctx context.Context) {
	if !p.due() || p.next.After(time.Now()) || ctx.Err() != nil {
		return
	}
	p.checking, p.checkedOnce = true, true
	s := p.s // a reload takes another one
	go func() { p.ended <- askPulls(ctx, s) }()
}

func askPulls(ctx context.Context, s *runner.Site) (a pullCheck) {
	seen, err := s.PullRequests().Remote().Pulls(ctx, "")
	a.silent, a.notes, a.err = seen.Silent, seen.Notes, err
	if err == nil {
		a.ReactionResult, a.err = s.PullRequests().React(ctx, seen.Open)
	}
	return a
}

// take processes the result of a check, and schedules the next one.
func (p *pulls) take(a pullCheck) {
	p.checking = false
	every := pullEvery
	switch {
	case a.silent || a.err != nil:
		every = min(pullEvery<<p.unanswered, pullRest)
		p.unanswered = min(p.unanswered+1, 6)
	case a.Waits:
		every, p.unanswered = pullSoon, 0
	default:
		p.unanswered = 0
	}
	p.next = time.Now().Add(every)
	for i, dir := range a.Begun {
		p.schedule.putNow(dir)
		p.notices.task(dir, "continues, because its pull request needs work: "+a.Why[i])
	}
	if a.err != nil {
		a.notes = append(a.notes, "looking at pull requests: "+a.err.Error())
	}
	told := map[string]bool{}
	for _, text := range append(a.notes, a.Notes...) {
		if told[text] = true; !p.reported[text] {
			p.s.Tell(runner.Event{Level: slog.LevelWarn, Message: text})
		}
	}
	p.reported = told
}

// bringForward brings the next check forward, since the checks of a pull request that was just delivered begin now.
func (p *pulls) bringForward() {
	if soon := time.Now().Add(pullSoon); p.unanswered == 0 && p.next.After(soon) {
		p.next = soon
	}
}
