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

// mask hides known secrets in what is told; nil hides nothing.
type mask func(string) string

// pushFailure is what keeps a branch from being pushed, and what to type about commits of others.
func (m mask) pushFailure(ctx context.Context, w Work, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var theirs *git.DivergedError
	fail := flow.Fail(string(trellis.PushFailed), "%s", m.words(err))
	if errors.As(err, &theirs) && theirs.Tip != "" {
		fail.Detail += fmt.Sprintf("; `%s pull --no-rebase %s %s` takes it in, and then `trellis deliver %s` checks both and pushes", inTree(w), trellis.ShellWord(theirs.Remote), trellis.ShellWord(theirs.Branch), w.Task)
	}
	fail.Retryable = !errors.As(err, new(*git.HookError)) && theirs == nil
	return fail
}

func (m mask) prFailure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*flow.Failure)) {
		return err
	}
	fail := flow.Fail(string(trellis.PRFailed), "%s", m.words(err))
	if no, ok := errors.AsType[*rest.Error](err); ok {
		fail.Retryable = no.Passing()
		if no.Wait > 0 {
			fail.At = time.Now().UTC()
			fail.ResumeAt = fail.At.Add(no.Wait)
		}
		return fail
	}
	fail.Retryable = true
	return fail
}

var signedIn = trellis.Pattern(`://[^/@\s]+@`)

// maxWords is how much of what a program said is passed on, in bytes.
const maxWords = 4 << 10

// words are an error's, without passwords in addresses and known secrets.
func (m mask) words(err error) string {
	s := m.hide(signedIn().ReplaceAllString(err.Error(), "://"))
	if len(s) > maxWords {
		s = text.Cut(s, maxWords/2) + " " + text.Tail(s, maxWords/2)
	}
	return s
}

// work is the work without known secrets in what is told of it. What is told is masked before it is escaped: that
// takes a secret apart.
func (m mask) work(w Work) Work {
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
