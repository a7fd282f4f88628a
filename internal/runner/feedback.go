package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// SendBack asks for another run of a task, as Retry does, with a person's feedback on the work. Work in review can be sent
// back too: it stays in review unchanged if nothing comes of the run. Agents are told the feedback once, by this run or, if
// no agent that was told it ended well, by the next one; giving the same feedback twice before that counts once.
func (s Orders) SendBack(ctx context.Context, dir, said string) error {
	if by, held := Held(dir); held {
		id := filepath.Base(dir)
		return &RefusedError{fmt.Sprintf("%s is worked on now, by process %d on %s: give feedback on its work when that has ended", id, by.PID, by.Host), "trellis stop " + trellis.ShellWord(id)}
	}
	if said = strings.TrimSpace(said); s.Redact != nil {
		said = s.Redact(said)
	}
	return s.retry(ctx, dir, retryOptions{feedback: said})
}

// hasSameFeedback reports whether a run that has not begun to work was already asked for with the same feedback.
func (s Orders) hasSameFeedback(dir string, h *journal.History, p pipeline.Progress, text string) (bool, error) {
	if text == "" || h.Ended || len(h.Calls) > 0 || p.Feedback == nil || !containsText(p.Feedback.Said, text) {
		return false, nil
	}
	t, err := s.Store.Load(dir)
	return err == nil && (t.Status == trellis.Ready || t.Status == trellis.InProgress), err // otherwise that order was cut off
}

func containsText(list []agentcall.Ref, text string) bool {
	return slices.ContainsFunc(list, func(r agentcall.Ref) bool { return r.SHA256 == agentcall.SHA256Hex([]byte(text)) })
}

// addFeedback adds a person's feedback to the input of the run that begins with it.
func (s Orders) addFeedback(t *taskdir.Task, p pipeline.Progress, said string, number int, in *pipeline.Input) error {
	ref := agentcall.Ref{Path: fmt.Sprintf("feedback/%d.md", number), SHA256: agentcall.SHA256Hex([]byte(said)), Bytes: len(said)}
	file := filepath.Join(t.Dir, taskdir.Run, ref.Path)
	if err := s.Disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("making the folder of feedback: %w", err)
	}
	if err := s.Disk.WriteFile(file, []byte(said), 0o600); err != nil {
		return err
	}
	told := pipeline.Feedback{}
	if p.Feedback != nil {
		told = *p.Feedback
	}
	same := func(r agentcall.Ref) bool { return r.SHA256 == ref.SHA256 } // given again after a cut-off, or as its file is gone
	told.Said = append(slices.DeleteFunc(slices.Clone(told.Said), same), ref)
	if t.Status == trellis.Review {
		told.Agent, told.Session = p.Agent, p.Session
	}
	in.Feedback = &told
	return nil
}

// setFeedbackTarget tells a run that begins with feedback which work it is about: work in review stays as it is if nothing comes of the
// run, work that nobody has seen does not.
func (s Orders) setFeedbackTarget(ctx context.Context, t *taskdir.Task, p pipeline.Progress, in *pipeline.Input) (err error) {
	switch {
	case in.Feedback == nil:
	case t.Status == trellis.Review:
		in.Undelivered, err = s.reviewedWork(ctx, t, p)
	case in.Undelivered != nil && !in.Undelivered.Delivery.Pushed:
		in.Undelivered = nil
	}
	return err
}

// reviewedWork returns the work in review that a run continues: what was verified, with what people pushed to it since.
func (s Orders) reviewedWork(ctx context.Context, t *taskdir.Task, p pipeline.Progress) (*pipeline.Report, error) {
	if p.Report == nil || p.React != nil {
		return nil, nil
	}
	held := *p.Report
	if !wasPushed(t, p) {
		return &held, nil
	}
	_, in, err := s.Deliveries().deliverable(t.Dir)
	if err != nil {
		return nil, err
	}
	with, err := delivery.FindChanges(ctx, s.Repo, in)
	if err != nil {
		return nil, err
	}
	more, err := with.TakeIn(ctx, s.guard().checkPush)
	if err != nil {
		return nil, err
	}
	s.Deliveries().tell(t.ID, more)
	held.Delivery.Pushed = true
	with.UpdateReport(&held)
	return &held, nil
}

// wasPushed reports whether others have seen the work of a task.
func wasPushed(t *taskdir.Task, p pipeline.Progress) bool {
	return t.PRURL != "" || p.Report != nil && p.Report.Delivery.Pushed
}
