package watch

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// logLevels are the values of --log-level.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// records logs what happens in a site as one record a line, for a service that nobody watches while it works.
type records struct {
	*slog.Logger
	tasks    string        // the folder that is watched
	lastIdle *atomic.Value // the last message about a watcher that has nothing to do
}

func (r records) begin(parallel int) {
	r.Info("watching", "tasks", r.tasks, "parallel", parallel, "version", command.Version(), "pid", os.Getpid())
}

// end logs nothing: the exit code and earlier records say how the watcher ended.
func (r records) end([]runner.Result, error) {}

// logIdle logs that nothing runs, and what waits, when that changes.
func (r records) logIdle(w runner.WatchState) {
	if w.Idle.IsZero() {
		return
	}
	if said := w.Words(); r.lastIdle.Swap(said) != said {
		r.Info(said, "since", w.Idle, "waiting", len(w.Waits))
	}
}

// LogLevels returns the values of --log-level, sorted.
func LogLevels() []string { return slices.Sorted(maps.Keys(logLevels)) }

// newRecords returns a log of records of at least a level, as text or as JSON. Secrets are redacted.
func newRecords(w io.Writer, asJSON bool, level slog.Level, redact func(string) string) records {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(redact(a.Value.String()))
		}
		return a
	}}
	if asJSON {
		return records{Logger: slog.New(slog.NewJSONHandler(w, o)), lastIdle: new(atomic.Value)}
	}
	return records{Logger: slog.New(slog.NewTextHandler(w, o)), lastIdle: new(atomic.Value)}
}

func (r records) handle(e runner.Event) {
	log := r.Logger
	if e.Task != "" {
		log = r.With("task", e.Task)
	}
	switch {
	case e.Message != "":
		log.Log(context.Background(), e.Level, e.Message)
	case e.State != nil:
		logState(log, *e.State)
	case e.Step != nil:
		logStep(log, *e.Step)
	case e.Told != nil:
		logEvent(log, *e.Told)
	case e.Watch != nil:
		r.logIdle(*e.Watch)
	case e.Asked == nil && e.Reply == nil:
		logAgent(log, e)
	}
}

// logState logs a status or a phase that a run has come to.
func logState(log *slog.Logger, s pipeline.TaskState) {
	level, msg := slog.LevelInfo, string(s.Status)
	switch s.Status {
	case trellis.InProgress:
		msg = s.Phase
	case trellis.Failed:
		level = slog.LevelError
	case trellis.Waiting, trellis.Paused:
		level = slog.LevelWarn
	}
	args := []any{"status", s.Status, "phase", s.Phase, "round", s.Round, "attempt", s.Attempt}
	if s.Outcome != "" {
		args = append(args, "outcome", s.Outcome)
	}
	if s.Failure != nil {
		args = append(args, "code", s.Failure.Code, "detail", s.Failure.Detail)
	}
	if !s.ResumeAt.IsZero() {
		args = append(args, "until", s.ResumeAt)
	}
	if n := s.Usage.Tokens(); n > 0 {
		args = append(args, "tokens", n)
	}
	if s.Usage.CostUSD != nil {
		args = append(args, "cost_usd", *s.Usage.CostUSD)
	}
	if s.Usage.CostEstimated {
		args = append(args, "cost_estimated", true)
	}
	if s.Usage.CostPartial {
		args = append(args, "cost_partial", true)
	}
	log.Log(context.Background(), level, msg, args...)
}

// logEvent logs a check, a wait or the end of a run.
func logEvent(log *slog.Logger, e events.Event) {
	switch {
	case e.Check != nil:
		level, msg := slog.LevelDebug, "check passed"
		if e.Check.Failed() {
			level, msg = slog.LevelWarn, "check failed"
		}
		log.Log(context.Background(), level, msg, "phase", e.Phase, "command", e.Check.Command, "n", e.Check.N, "of", e.Check.Of, "exit", e.Check.Code, "last", e.Check.Last, "seconds", e.Check.Seconds)
	case e.Wait != nil:
		args := []any{"for", e.Wait.For, "why", e.Wait.Why}
		if !e.Wait.Until.IsZero() {
			args = append(args, "until", e.Wait.Until)
		}
		if e.Wait.Attempt > 0 {
			args = append(args, "attempt", e.Wait.Attempt, "attempts", e.Wait.Of)
		}
		log.Warn("waits", args...)
	case e.Outcome != nil:
		o := e.Outcome
		files, added, deleted := o.Changes()
		log.Info("ended", "status", o.Status, "outcome", o.Outcome, "seconds", o.Seconds, "rounds", o.Rounds, "tokens", o.Usage.Tokens(), "files", files, "added", added, "deleted", deleted,
			"met", o.Met, "criteria", o.Criteria, "commit", o.Commit, "branch", o.Branch, "worktree", o.Worktree, "report", o.Report, "next", o.Next)
	}
}

func logStep(log *slog.Logger, e workflow.Event) {
	switch {
	case e.Type == workflow.StepFinished && e.State == workflow.Failed:
		log.Warn("step failed", "step", e.Step, "detail", strings.TrimSpace(e.Text))
	case e.Stream == "log":
		log.Info(e.Text, "step", e.Step)
	case e.Type == workflow.StepOutput:
		log.Debug(strings.TrimRight(e.Text, "\n"), "step", e.Step, "stream", e.Stream)
	default:
		log.Debug(string(e.Type), "step", e.Step)
	}
}

func logAgent(log *slog.Logger, e runner.Event) {
	log = log.With("role", e.Role, "round", e.Round, "call", e.Call)
	switch e.Agent.Kind {
	case agents.EventNotice:
		log.Warn(e.Agent.Text)
	case agents.EventTool:
		log.Debug("tool", "tool", e.Agent.Tool, "input", e.Agent.Input)
	case agents.EventText:
		log.Debug(e.Agent.Text)
	}
}
