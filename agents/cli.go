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

// cli is an agent that runs a program.
type cli struct {
	o          Options
	invocation func(Request) (*invocation, error)
}

// invocation says how a program is started for one request, and how its output is read.
type invocation struct {
	argv   []string
	env    []string // the whole environment
	stdin  io.Reader
	reader reader
	own    Own
}

// reader interprets the output of a program.
type reader interface {
	// line reads one line of standard output and updates t. It reports whether the line was an event.
	line(line string, t *tally) bool
	// end is called once, after the program has exited. A failure that it returns takes precedence over the general rules: a
	// signal, an exit code, no result, empty output.
	end(t *tally, e ending) *flow.Failure
}

// talker is a reader that also writes to the program's standard input while the program runs.
type talker interface {
	// talk begins the conversation. Lines are read only while mu is held. The program has to run in the returned context, which
	// ends up to patience later than ctx, so that the program can stop by itself. The returned function is called once it has
	// exited.
	talk(ctx context.Context, mu sync.Locker, patience time.Duration) (context.Context, func())
}

// usageCorrector is a reader that can correct the usage after the program has exited, above all that of a run that was cut off.
type usageCorrector interface {
	correctUsage(t *tally, cutOff bool)
}

// stderrReader is a reader for a program whose standard error has information that its standard output lacks.
type stderrReader interface {
	stderrLine(line string, t *tally)
}

func (c *cli) Run(ctx context.Context, r Request, emit func(Event)) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, err := c.invocation(r)
	if err != nil {
		return nil, err
	}
	logs, err := openLogs(r.RunDir, c.o.secrets(s.env))
	if err != nil {
		return nil, err
	}
	place, err := c.o.sandboxPlace(ctx, r, s.argv, s.own)
	if err != nil {
		return nil, errors.Join(err, logs.close())
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tally{emit: emit, watchdog: newWatchdog(r, c.o.grace(), end), prices: c.o.Prices}
	t.result.Sandbox, t.result.Model = place.Name, r.Model
	var mu sync.Mutex // serializes the readers of stdout and stderr
	out := &lineWriter{redact: logs.redact, log: logs.stream, onLine: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		reported, stopped := t.reportedEnd, within.Err() != nil
		if s.reader.line(line, t) {
			t.watchdog.restartIdle()
		}
		if stopped {
			t.reportedEnd = reported // what the program says about its end after we ended it does not count
		}
	}}
	complaints, lines := io.Writer(logs.mask), &lineWriter{redact: logs.redact, log: io.Discard}
	if r, ok := s.reader.(stderrReader); ok {
		lines.onLine = func(line string) {
			mu.Lock()
			defer mu.Unlock()
			if within.Err() == nil {
				r.stderrLine(line, t)
			}
		}
		complaints = io.MultiWriter(logs.mask, lines)
	}
	running := within
	if talk, ok := s.reader.(talker); ok {
		var leave func()
		running, leave = talk.talk(within, &mu, c.o.grace()/4)
		defer leave()
	}
	bound := &outputLimit{limit: c.o.outputLimit(), end: end}
	exit, err := proc.Run(running, proc.Command{
		Argv: s.argv, Dir: r.Dir, Env: slices.Concat(s.env, place.Env), Stdin: s.stdin, Stdout: bound.writer(out), Stderr: bound.writer(complaints),
		Marker: r.Marker, Interrupt: true, Grace: c.o.grace(), Launcher: place.Launcher, Files: place.Files,
	})
	t.watchdog.stop()
	network := place.leave(s.argv[0], t.notice)
	if err == nil || errors.Is(err, errHung) {
		err = errors.Join(err, out.end(), lines.end())
	}
	err = errors.Join(err, logs.close())
	result, err := c.outcome(r, t, s, ending{Result: exit, stderr: logs.tail.String(), printedNothing: !out.printed}, err)
	return result, network.explain(err)
}

// ending describes how a program ended.
type ending struct {
	proc.Result
	stderr         string
	printedNothing bool // it printed nothing
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

// outcome returns the results of Run; err is the error of proc.Run.
func (c *cli) outcome(r Request, t *tally, s *invocation, e ending, err error) (*Result, error) {
	t.result.Usage.Seconds = e.Seconds
	t.result.Session = cmp.Or(t.result.Session, r.Session)
	var stopped *flow.Failure
	hung := errors.Is(err, errHung)
	if a, ok := s.reader.(usageCorrector); ok {
		a.correctUsage(t, err != nil && !hung)
	}
	switch {
	case err == nil || hung:
	case errors.As(err, &stopped) && t.done && !isBudgetFailure(stopped):
		hung = true // a limit was reached only after the program had given its result
	case stopped != nil:
		return &t.result, t.stopFailure(stopped, e)
	case (e.Code == proc.CodeNotFound || e.Code == proc.CodeNoExec) && exists(r.Dir):
		return nil, fail(trellis.AgentMissing, "%s", err)
	default:
		return &t.result, err
	}
	if f := t.verdict(r, s.reader.end(t, e), e, hung || t.answeredAll); f != nil {
		return &t.result, f
	}
	t.event(Event{Kind: EventResult, Text: t.result.Text})
	return &t.result, nil
}

func isBudgetFailure(f *flow.Failure) bool {
	return f.Code == string(trellis.BudgetTokens) || f.Code == string(trellis.BudgetCost)
}

// stopFailure returns the failure of a run that the watchdog ended. An error that the program itself reported is preferred, since
// it says more than that the program fell silent.
func (t *tally) stopFailure(why *flow.Failure, e ending) error {
	switch {
	case isBudgetFailure(why), why.Code == string(trellis.CalledOff):
		return why
	case t.failure != nil:
		return t.failure
	case t.waitReason != nil:
		return t.waitReason
	}
	if said := lastLines(e.stderr); said != "" {
		why.Detail += "; it said last: " + said
	}
	return why
}

// verdict returns the failure of a run that was not stopped, and nil if the run did its work.
func (t *tally) verdict(r Request, own *flow.Failure, e ending, hung bool) *flow.Failure {
	switch {
	case t.failure != nil:
		return t.failure
	case own != nil:
		return own
	case t.waitReason != nil && !hung && (e.Code != 0 || e.Signal != ""):
		return t.waitReason
	case e.Signal != "" && !hung:
		return fail(trellis.AgentSignal, "%s", e)
	case e.Code != 0 && !hung:
		return fail(trellis.AgentExit, "%s", e)
	case !t.done && e.printedNothing:
		return fail(trellis.EmptyOutput, "the program ended well but printed nothing; %s", e)
	case !t.done:
		return fail(trellis.AgentProtocol, "the program ended without a result; %s", e)
	case r.Role.Permission() != trellis.PermitEdit && t.result.Answer == nil && strings.TrimSpace(t.result.Text) == "":
		return fail(trellis.EmptyOutput, "the program ended well but said nothing; %s", e)
	}
	return nil
}

// prompt returns the standard input for a program that takes no separate system prompt.
func (r Request) prompt() string {
	if r.System == "" {
		return strings.ToValidUTF8(r.Prompt, "\uFFFD")
	}
	return strings.ToValidUTF8(r.System+"\n\n"+r.Prompt, "\uFFFD")
}
