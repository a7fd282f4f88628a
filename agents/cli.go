package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cli is an agent that is a program.
type cli struct {
	o     Options
	begin func(Request) (*start, error)
}

// start is how a program is started for one request, and how to read it.
type start struct {
	argv   []string
	env    []string // the whole environment
	stdin  io.Reader
	reader reader
	own    Own
}

// reader makes sense of what a program prints.
type reader interface {
	// line takes one line of standard output and fills t. It reports whether it was an event.
	line(line string, t *tally) bool
	// end is called once, when the program is gone. What it returns goes before the general rules:
	// a signal, an exit code, no result, nothing said.
	end(t *tally, e ending) *flow.Failure
}

// talker is a reader that talks with the program on its standard input, while it runs.
type talker interface {
	// talk begins. A line is only taken while mu is held. The context that it returns is the one to run the program in: ctx with
	// time to take leave, which is at most patience. What it returns besides is called when the program is gone.
	talk(ctx context.Context, mu sync.Locker, patience time.Duration) (context.Context, func())
}

// accountant is a reader that knows more of what was used once the program is gone, most of all of one that was cut off.
type accountant interface {
	account(t *tally, cutOff bool)
}

// complainer is a reader of a program that says on standard error what it does not say on standard output.
type complainer interface {
	complaint(line string, t *tally)
}

func (c *cli) Run(ctx context.Context, r Request, emit func(Event)) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, err := c.begin(r)
	if err != nil {
		return nil, err
	}
	logs, err := openLogs(r.RunDir, c.o.secrets(s.env))
	if err != nil {
		return nil, err
	}
	place, err := c.o.enter(ctx, r, s.argv, s.own)
	if err != nil {
		return nil, errors.Join(err, logs.close())
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tally{emit: emit, watchdog: newWatchdog(r, c.o.grace(), end), prices: c.o.Prices}
	t.result.Sandbox, t.result.Model = place.Name, r.Model
	var mu sync.Mutex // of the two streams at a time
	out := &lines{redact: logs.redact, log: logs.stream, take: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said, stopped := t.said, within.Err() != nil
		if s.reader.line(line, t) {
			t.watchdog.alive()
		}
		if stopped {
			t.said = said // what it says of its end is our doing
		}
	}}
	complaints := io.Writer(logs.mask)
	if r, ok := s.reader.(complainer); ok {
		complaints = io.MultiWriter(logs.mask, &lines{redact: logs.redact, log: io.Discard, take: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			if within.Err() == nil {
				r.complaint(line, t)
			}
		}})
	}
	running := within
	if talk, ok := s.reader.(talker); ok {
		var leave func()
		running, leave = talk.talk(within, &mu, c.o.grace()/4)
		defer leave()
	}
	bound := &output{most: c.o.output(), end: end}
	exit, err := proc.Run(running, proc.Command{
		Argv: s.argv, Dir: r.Dir, Env: slices.Concat(s.env, place.Env), Stdin: s.stdin, Stdout: bound.writer(out), Stderr: bound.writer(complaints),
		Marker: r.Marker, Interrupt: true, Grace: c.o.grace(), Launcher: place.Launcher, Files: place.Files,
	})
	t.watchdog.stop()
	network := place.leave(s.argv[0], t.notice)
	if err == nil || errors.Is(err, errHung) {
		err = errors.Join(err, out.end())
	}
	err = errors.Join(err, logs.close())
	result, err := c.outcome(r, t, s, ending{Result: exit, stderr: logs.tail.String(), mute: !out.any}, err)
	return result, network.explain(err)
}

// ending is how a program ended.
type ending struct {
	proc.Result
	stderr string
	mute   bool // it printed nothing
}

func (e ending) String() string {
	how := fmt.Sprintf("exit %d", e.Code)
	if e.Signal != "" {
		how = e.Signal
	}
	if said := lastLines(e.stderr); said != "" {
		how += ": " + said
	}
	return how
}

// outcome is what Run returns, given that proc.Run returned err.
func (c *cli) outcome(r Request, t *tally, s *start, e ending, err error) (*Result, error) {
	t.result.Usage.Seconds = e.Seconds
	t.result.Session = cmp.Or(t.result.Session, r.Session)
	var stopped *flow.Failure
	hung := errors.Is(err, errHung)
	if a, ok := s.reader.(accountant); ok {
		a.account(t, err != nil && !hung)
	}
	switch {
	case err == nil || hung:
	case errors.As(err, &stopped) && t.done && !overspending(stopped):
		hung = true // its time was up only after it had given its result
	case stopped != nil:
		return &t.result, t.stopped(stopped, e)
	case (e.Code == proc.CodeNotFound || e.Code == proc.CodeNoExec) && exists(r.Dir):
		return nil, fail(trellis.AgentMissing, "%s", err)
	default:
		return &t.result, err
	}
	if f := t.verdict(r, s.reader.end(t, e), e, hung || t.parted); f != nil {
		return &t.result, f
	}
	t.event(Event{Kind: EventResult, Text: t.result.Text})
	return &t.result, nil
}

func overspending(f *flow.Failure) bool {
	return f.Code == string(trellis.BudgetTokens) || f.Code == string(trellis.BudgetCost)
}

// stopped is the failure of a run that the watch ended: what the program said itself tells more than
// that it fell silent.
func (t *tally) stopped(why *flow.Failure, e ending) error {
	switch {
	case overspending(why), why.Code == string(trellis.CalledOff):
		return why
	case t.failure != nil:
		return t.failure
	case t.waiting != nil:
		return t.waiting
	}
	if said := lastLines(e.stderr); said != "" {
		why.Detail += "; it said last: " + said
	}
	return why
}

// verdict is what is wrong with a run that came to its end; nil when it did its work.
func (t *tally) verdict(r Request, own *flow.Failure, e ending, hung bool) *flow.Failure {
	switch {
	case t.failure != nil:
		return t.failure
	case own != nil:
		return own
	case t.waiting != nil && !hung && (e.Code != 0 || e.Signal != ""):
		return t.waiting
	case e.Signal != "" && !hung:
		return fail(trellis.AgentSignal, "%s", e)
	case e.Code != 0 && !hung:
		return fail(trellis.AgentExit, "%s", e)
	case !t.done && e.mute:
		return fail(trellis.EmptyOutput, "the program ended well but printed nothing; %s", e)
	case !t.done:
		return fail(trellis.AgentProtocol, "the program ended without a result; %s", e)
	case r.Role.Permission() != trellis.PermitEdit && t.result.Answer == nil && strings.TrimSpace(t.result.Text) == "":
		return fail(trellis.EmptyOutput, "the program ended well but said nothing; %s", e)
	}
	return nil
}

// prompt is what goes to the standard input of a program without a system prompt of its own.
func (r Request) prompt() string {
	if r.System == "" {
		return strings.ToValidUTF8(r.Prompt, "\uFFFD")
	}
	return strings.ToValidUTF8(r.System+"\n\n"+r.Prompt, "\uFFFD")
}
