// Package delivery takes a verified commit to where people look at it: the branch to the remote, a pull request for it.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Work is a commit that was verified, and what is known of it.
type Work struct {
	Task, Path    string // name and folder of the task, the latter from the top of the repository
	Title         string // of the pull request
	Branch        string
	Base          string // branch that the work is to be merged into
	BaseCommit    string
	Commit        string
	Modules       []string // paths of submodules that were worked in too
	Worktree      string   // where the pre-push hook runs; "" or gone: the main checkout
	StackedOn     string   // the task on whose branch the work began, "" when it did on Base
	StackedBranch string
	PR            string // address of the pull request that was opened before, "" for none
	Summary       string // what was asked for, as Markdown
	Criteria      []Criterion
	Checks        []Check
	Executed      bool // some command checked the work
	Rounds        int
	Took          string // what agents used, in words
}

// Criterion is a row of the table of acceptance criteria.
type Criterion struct{ ID, Text, Level, Verdict, Evidence string }

// Check is a command that was run on the commit.
type Check struct {
	Command string
	Code    int
	Seconds float64
	Known   bool // it failed at base too, and was forgiven
}

// Delivered is what became of it. What could not be done for want of a remote or of gh is no failure: Commands are what
// to type for it, and Notes say why.
type Delivered struct {
	Remote   string
	Pushed   bool // the branch is there with the commit, by now or before
	URL      string
	Number   int    // of the pull request
	Into     string // the branch that it is for
	Title    string
	Body     string
	Commands []string
	Notes    []string
}

// Deliverer delivers work of a repository.
type Deliverer struct {
	Repo      *git.Repo
	Forge     *forge.Forge
	PR        bool // open a pull request, not only push
	Draft     bool
	Labels    []string
	Reviewers []string
	Redact    func(string) string // nil: nothing is
}

// Deliver pushes the branch and opens a pull request, or brings the one that is open up to date. It looks for what is
// there first, and may be called again after any end. Failures are push_failed and pr_failed, retryable when a
// passing cause is likely, and empty_diff when the base has the work already.
func (d *Deliverer) Deliver(ctx context.Context, w Work) (out Delivered, err error) {
	if out, err = d.look(ctx, w); err != nil {
		return out, err
	}
	ready, err := d.pushModules(ctx, w, &out)
	if err != nil || !ready || out.Remote == "" {
		return out, err
	}
	o := git.PushOptions{Dir: d.checkout(w), Remote: out.Remote, Branch: w.Branch, Commit: w.Commit, Whose: w.Task}
	if _, err := d.Repo.Push(ctx, o); err != nil {
		return out, d.pushFailure(ctx, err)
	}
	out.Pushed = true
	if !d.PR {
		out.Commands = append(out.Commands, d.create(w, out))
		return out, nil
	}
	return d.open(ctx, w, out)
}

// Preview is what Deliver would do, without doing it. No pull request is looked for.
func (d *Deliverer) Preview(ctx context.Context, w Work) (out Delivered, err error) {
	if out, err = d.look(ctx, w); err != nil {
		return out, err
	}
	first, err := d.modules(ctx, w)
	if err != nil || out.Remote == "" {
		out.Commands = slices.Concat(first.pushes(w), out.Commands)
		return out, err
	}
	if err := d.into(ctx, w, &out); err != nil {
		return out, err
	}
	out.Body = d.redact(d.body(w, d.template()))
	out.Commands = append(first.pushes(w), push(out.Remote, w.Branch), d.create(w, out))
	return out, nil
}

// look finds the remote, and makes sure that there is something to deliver.
func (d *Deliverer) look(ctx context.Context, w Work) (out Delivered, err error) {
	out = Delivered{Title: d.redact(w.Title), Into: w.Base}
	tip, err := d.Repo.Branch(ctx, w.Branch)
	switch {
	case err != nil:
		return out, err
	case tip == "":
		return out, flow.Fail(string(trellis.PushFailed), "there is no branch %s any more; git branch %s %s brings it back", w.Branch, word(w.Branch), w.Commit)
	case tip != w.Commit:
		return out, flow.Fail(string(trellis.PushFailed), "branch %s is not at %.12s any more, the commit that was verified (it is at %.12s): what came after that nobody checked, `git push` it yourself or take it back", w.Branch, w.Commit, tip)
	}
	if base, err := d.Repo.Resolve(ctx, w.Base); err == nil {
		if within, err := d.Repo.IsAncestor(ctx, w.Commit, base); err != nil || within {
			return out, orEmpty(err, w, w.Base)
		}
	}
	if out.Remote, err = d.Repo.Remote(ctx, w.Base); err != nil || out.Remote != "" {
		return out, err
	}
	out.Body = d.redact(d.body(w, d.template()))
	out.Notes = []string{"nothing was pushed: no remote is followed by " + w.Base + ", and there is no origin"}
	out.Commands = []string{"git remote add origin URL", push("origin", w.Branch), d.create(w, out)}
	return out, nil
}

func orEmpty(err error, w Work, base string) error {
	if err != nil {
		return err
	}
	return flow.Fail(string(trellis.EmptyDiff), "%s has all of branch %s already: there is nothing to deliver", base, w.Branch)
}

// checkout is where the user's hook runs: with the work, as long as that is there.
func (d *Deliverer) checkout(w Work) string {
	if w.Worktree != "" {
		if _, err := d.Repo.Head(context.Background(), w.Worktree); err == nil {
			return w.Worktree
		}
	}
	return d.Repo.Main
}

// open finds or makes the pull request.
func (d *Deliverer) open(ctx context.Context, w Work, out Delivered) (Delivered, error) {
	if err := d.into(ctx, w, &out); err != nil {
		return out, d.prFailure(ctx, err)
	}
	if out.Into == "" {
		return out, nil
	}
	there, err := d.Forge.Find(ctx, w.Branch)
	if err != nil {
		return d.without(ctx, w, out, err)
	}
	switch {
	case there != nil && there.State == forge.Open:
		out.URL, out.Number = there.URL, there.Number
		d.update(ctx, w, &out, there)
	case there != nil && there.HeadSHA == w.Commit:
		out.URL, out.Number = there.URL, there.Number
		out.Notes = append(out.Notes, fmt.Sprintf("pull request %d of this commit was %s: no other one is opened", there.Number, strings.ToLower(there.State)))
		if there.State == forge.Closed {
			out.Commands = []string{fmt.Sprintf("gh pr reopen %d", there.Number)}
		}
		return out, nil
	default:
		if there != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("pull request %d of this branch was %s; this is a new one", there.Number, strings.ToLower(there.State)))
		}
		out.Body = d.redact(d.body(w, d.template()))
		made, err := d.Forge.Create(ctx, forge.New{Title: out.Title, Body: out.Body, Base: out.Into, Head: w.Branch, Draft: d.Draft})
		if err != nil {
			return d.without(ctx, w, out, err)
		}
		out.URL, out.Number = made.URL, made.Number
	}
	err = d.adorn(ctx, &out)
	return out, err
}

// into decides which branch the pull request is for: the one that the work stands on if the remote has that, else its
// base. It is "" when the remote has neither.
func (d *Deliverer) into(ctx context.Context, w Work, out *Delivered) error {
	base := strings.TrimPrefix(w.Base, out.Remote+"/")
	names := []string{base}
	if w.StackedBranch != "" {
		names = append(names, w.StackedBranch)
	}
	tips, err := d.Repo.RemoteBranches(ctx, out.Remote, names...)
	if err != nil {
		return err
	}
	if out.Into = base; w.StackedBranch != "" && tips[w.StackedBranch] != "" {
		out.Into = w.StackedBranch
	} else if w.StackedBranch != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("branch %s, which this stands on, is not at %s: the pull request is for %s and shows the work of both", w.StackedBranch, out.Remote, base))
	}
	tip := tips[out.Into]
	if tip == "" {
		out.Notes = append(out.Notes, fmt.Sprintf("no pull request was opened: %s has no branch %s", out.Remote, base))
		out.Commands = append(out.Commands, push(out.Remote, base), d.create(w, *out))
		out.Into = ""
		return nil
	}
	if _, err := d.Repo.Resolve(ctx, tip); errors.Is(err, git.ErrNotFound) {
		return nil // others pushed to it; that it has this work, nobody can tell
	}
	if within, err := d.Repo.IsAncestor(ctx, w.Commit, tip); err != nil || within {
		return orEmpty(err, w, out.Remote+"/"+out.Into)
	}
	return nil
}

// update brings our part of an open pull request's text up to date. It is what people wrote as well: without the marks
// it is left as it is.
func (d *Deliverer) update(ctx context.Context, w Work, out *Delivered, there *forge.PR) {
	body, ok := d.renewed(w, there.Body)
	out.Body = body
	switch {
	case !ok:
		out.Notes = append(out.Notes, fmt.Sprintf("the text of pull request %d was left as it is: the marks that Trellis' part stands between are gone", there.Number))
	case body != there.Body:
		if err := d.Forge.EditBody(ctx, there.Number, body); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("the text of pull request %d is not up to date: %s", there.Number, d.words(err)))
		}
	}
}

// adorn adds labels and reviewers. What gh refuses is noted: the pull request is there.
func (d *Deliverer) adorn(ctx context.Context, out *Delivered) error {
	for _, l := range d.Labels {
		if err := d.Forge.Label(ctx, out.Number, l); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("pull request %d has no label %s: %s", out.Number, l, d.words(err)))
		}
	}
	for _, who := range d.Reviewers {
		if err := d.Forge.AskReview(ctx, out.Number, who); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s was not asked to review pull request %d: %s", who, out.Number, d.words(err)))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// without is the end without a pull request: a failure, or for want of gh what to type.
func (d *Deliverer) without(ctx context.Context, w Work, out Delivered, err error) (Delivered, error) {
	if !errors.Is(err, forge.ErrNoProgram) && !errors.Is(err, forge.ErrNotSignedIn) {
		return out, d.prFailure(ctx, err)
	}
	if w.PR != "" {
		out.URL = w.PR
		out.Commands = append(out.Commands, "gh auth login", "trellis deliver "+w.Task)
		out.Notes = append(out.Notes, "the pull request was not brought up to date: "+d.words(err))
		return out, nil
	}
	out.Commands = append(out.Commands, "gh auth login", d.create(w, out))
	out.Notes = append(out.Notes, "no pull request was opened: "+d.words(err))
	return out, nil
}

func push(remote, branch string) string { return "git push " + word(remote) + " " + word(branch) }

// create is the command that opens the pull request.
func (d *Deliverer) create(w Work, out Delivered) string {
	draft := ""
	if d.Draft {
		draft = " --draft"
	}
	return fmt.Sprintf("gh pr create%s --base %s --head %s --title %s --body-file %s", draft, word(out.Into), word(w.Branch), word(out.Title), word(w.Path+"/report.md"))
}

var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`) })

// word is s as one word of a shell.
func word(s string) string {
	if plain().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (d *Deliverer) pushFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var hook *git.HookError
	fail := flow.Fail(string(trellis.PushFailed), "%s", d.words(err))
	fail.Retryable = !errors.As(err, &hook) && !errors.As(err, new(*git.DivergedError))
	return fail
}

func (d *Deliverer) prFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.As(err, new(*flow.Failure)) {
		return err
	}
	fail := flow.Fail(string(trellis.PRFailed), "%s", d.words(err))
	fail.Retryable = true
	return fail
}

var signedIn = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^/@\s]+@`) })

// maxWords is how much of what a program said is passed on, in bytes.
const maxWords = 4 << 10

// words are an error's, without passwords in addresses and known secrets.
func (d *Deliverer) words(err error) string {
	s := d.redact(signedIn().ReplaceAllString(err.Error(), "://"))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords/2], "") + " … " + strings.ToValidUTF8(s[len(s)-maxWords/2:], "")
	}
	return s
}

func (d *Deliverer) redact(s string) string {
	if d.Redact == nil {
		return s
	}
	return d.Redact(s)
}
