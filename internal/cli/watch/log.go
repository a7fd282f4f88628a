package watch

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// logLevels are the values of --log-level.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// records tells what happens in a site as one record a line, for a service that nobody looks at while it works.
type records struct{ *slog.Logger }

// newRecords writes records of at least a level, as text or as JSON. Nothing secret is in them.
func newRecords(w io.Writer, asJSON bool, level slog.Level, redact func(string) string) records {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(redact(a.Value.String()))
		}
		return a
	}}
	if asJSON {
		return records{slog.New(slog.NewJSONHandler(w, o))}
	}
	return records{slog.New(slog.NewTextHandler(w, o))}
}

func (r records) take(e runner.Event) {
	log := r.Logger
	if e.Task != "" {
		log = r.With("task", e.Task)
	}
	switch {
	case e.Message != "":
		log.Log(context.Background(), e.Level, e.Message)
	case e.State != nil:
		standing(log, *e.State)
	case e.Step != nil:
		step(log, *e.Step)
	case e.Asked == nil && e.Reply == nil:
		agent(log, e)
	}
}

// standing tells of a status or a phase that a run has come to.
func standing(log *slog.Logger, s pipeline.TaskState) {
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
	log.Log(context.Background(), level, msg, args...)
}

func step(log *slog.Logger, e workflow.Event) {
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

func agent(log *slog.Logger, e runner.Event) {
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
