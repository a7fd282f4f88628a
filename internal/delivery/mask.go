package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// mask hides known secrets in text that leaves the machine; nil hides nothing.
type mask func(string) string

// pushFailure returns the failure for a branch that can't be pushed, with the command to type if others have pushed commits.
func (m mask) pushFailure(ctx context.Context, w Work, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var theirs *git.DivergedError
	fail := flow.Fail(string(trellis.PushFailed), "%s", m.message(err))
	if errors.As(err, &theirs) && theirs.Tip != "" {
		fail.Detail += fmt.Sprintf("; `%s pull --no-rebase %s %s` takes it in, and then `trellis deliver %s` checks both and pushes", gitInWorktree(w), trellis.ShellWord(theirs.Remote), trellis.ShellWord(theirs.Branch), w.Task)
	}
	fail.Retryable = !errors.As(err, new(*git.HookError)) && theirs == nil
	return fail
}

func (m mask) prFailure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*flow.Failure)) {
		return err
	}
	fail := flow.Fail(string(trellis.PRFailed), "%s", m.message(err))
	if no, ok := errors.AsType[*rest.Error](err); ok {
		fail.Retryable = no.IsTransient()
		if no.Wait > 0 {
			fail.At = time.Now().UTC()
			fail.ResumeAt = fail.At.Add(no.Wait)
		}
		return fail
	}
	fail.Retryable = true
	return fail
}

var urlUserInfo = trellis.Pattern(`://[^/@\s]+@`)

// maxMessage is how much of a program's error message is passed on, in bytes.
const maxMessage = 4 << 10

// message returns the message of err, without passwords in addresses and without known secrets.
func (m mask) message(err error) string {
	s := m.hide(urlUserInfo().ReplaceAllString(err.Error(), "://"))
	if len(s) > maxMessage {
		s = text.Cut(s, maxMessage/2) + " " + text.Tail(s, maxMessage/2)
	}
	return s
}

// hideInWork returns w with known secrets hidden in the texts to be published. They are hidden before texts are escaped, since
// escaping would break secrets up.
func (m mask) hideInWork(w Work) Work {
	shown := func(s string) string { return trellis.Visible(m.hide(s)) }
	w.Title, w.Summary = shown(w.Title), shown(w.Summary)
	r := &w.Report
	r.Criteria, r.Checks.Results, r.Checks.Defining = slices.Clone(r.Criteria), slices.Clone(r.Checks.Results), slices.Clone(r.Checks.Defining)
	for i, c := range r.Criteria {
		r.Criteria[i].Text, r.Criteria[i].Evidence = shown(c.Text), shown(c.Evidence)
	}
	for i, c := range r.Checks.Results {
		r.Checks.Results[i].Command = shown(c.Command)
	}
	for i, name := range r.Checks.Defining {
		r.Checks.Defining[i] = m.hide(name)
	}
	return w
}

func (m mask) hide(s string) string {
	if m == nil {
		return s
	}
	return m(s)
}
