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

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github"
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
	Mends         bool   // what was wrong with that
	Summary       string // what was asked for, as Markdown
	Criteria      []Criterion
	Checks        []Check
	Defining      []string // changed files that say what the checks do
	Executed      bool     // some command checked the work
	Rounds        int
	Took          string // what agents used, in words

	Above string // the commit that people pushed on top of it, "" for none

	parts []Part // what is delivered before it
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
	Modules  []Part // what became of the work in submodules, which is delivered first
	Push     string // of a preview: what would be pushed, in words
	Commands []string
	Notes    []string
}

// Deliverer delivers work of a repository.
type Deliverer struct {
	Repo      *git.Repo
	Forge     *github.Client
	PR        bool // open a pull request, not only push
	Draft     bool
	Labels    []string
	Reviewers []string
	Redact    func(string) string // nil: nothing is
	Record    string              // the file that remembers what pull requests were opened and given, "" for none
	Disk      *durable.Disk
}

// Deliver pushes the branch and opens a pull request, or brings the one that is open up to date. What the work has in
// submodules goes before it, to where those come from. It looks for what is there first, and may be called again after
// any end. Failures are push_failed and pr_failed, retryable when a passing cause is likely, and empty_diff when the
// base has the work already.
func (d *Deliverer) Deliver(ctx context.Context, w Work) (out Delivered, err error) {
	w = d.masked(w)
	if out, err = d.look(ctx, w); err != nil {
		return out, err
	}
	first, ready, err := d.pushModules(ctx, w, &out)
	if err != nil || !ready {
		return out, err
	}
	if err := d.openModules(ctx, w, first, &out); err != nil {
		return out, d.prFailure(ctx, err)
	}
	w.parts = out.Modules
	o := git.PushOptions{Dir: d.checkout(ctx, w), Remote: out.Remote, Branch: w.Branch, Commit: w.Commit, Whose: w.Task}
	if w.Above, err = d.push(ctx, d.Repo, o, &out); err != nil {
		return out, d.pushFailure(ctx, w, err)
	}
	out.Pushed = true
	if !d.PR {
		out.Commands = append(out.Commands, d.create(w, out))
		return out, nil
	}
	out, err = d.open(ctx, w, out)
	if err == nil {
		d.link(ctx, w, first, &out)
	}
	return out, err
}

// push makes sure that a remote's branch has the commit, and returns the one that people pushed on top of it, "" for none.
func (d *Deliverer) push(ctx context.Context, repo *git.Repo, o git.PushOptions, out *Delivered) (above string, err error) {
	_, err = repo.Remotes().Push(ctx, o)
	var ahead *git.AheadError
	if !errors.As(err, &ahead) {
		return "", err
	}
	who, n, err := repo.History().Authors(ctx, o.Commit, ahead.Tip)
	if err != nil {
		return "", err
	}
	out.Notes = append(out.Notes, fmt.Sprintf("branch %s of %s has %s on top of %.12s, the commit that was verified: nothing is pushed over it", o.Branch, o.Remote, d.redact(Commits(n, who)), o.Commit))
	return ahead.Tip, nil
}

// Commits are so many of these authors, in words.
func Commits(n int, who []string) string {
	const most = 3
	if len(who) > most {
		who = append(who[:most:most], fmt.Sprintf("%d more", len(who)-most))
	}
	if n == 1 {
		return "1 commit of " + strings.Join(who, ", ")
	}
	return fmt.Sprintf("%d commits of %s", n, strings.Join(who, ", "))
}

// look finds the remote, and makes sure that there is something to deliver.
func (d *Deliverer) look(ctx context.Context, w Work) (out Delivered, err error) {
	out = Delivered{Title: w.Title, Into: w.Base}
	tip, err := d.Repo.Refs().Branch(ctx, w.Branch)
	switch {
	case err != nil:
		return out, err
	case tip == "":
		return out, flow.Fail(string(trellis.PushFailed), "there is no branch %s any more; git branch %s %s brings it back", w.Branch, word(w.Branch), w.Commit)
	case tip != w.Commit:
		if there, err := d.there(ctx, w, tip); err != nil || !there {
			return out, d.strayed(err, w, tip)
		}
	}
	if base, err := d.Repo.Refs().Resolve(ctx, w.Base); err == nil {
		if within, err := d.Repo.History().IsAncestor(ctx, w.Commit, base); err != nil || within {
			return out, orEmpty(err, w, w.Base)
		}
	}
	if out.Remote, err = d.Repo.Remotes().Remote(ctx, w.Base); err != nil || out.Remote != "" {
		return out, err
	}
	out.Body = d.redact(d.body(w))
	out.Notes = []string{"nothing was pushed: no remote is followed by " + w.Base + ", and there is no origin"}
	out.Commands = []string{"git remote add origin URL", push("origin", w.Branch), d.create(w, out)}
	return out, nil
}

// there reports whether the remote has what the branch has here on top of the verified commit.
func (d *Deliverer) there(ctx context.Context, w Work, tip string) (bool, error) {
	if within, err := d.Repo.History().IsAncestor(ctx, w.Commit, tip); err != nil || !within {
		return false, err
	}
	remote, err := d.Repo.Remotes().Remote(ctx, w.Base)
	if err != nil || remote == "" {
		return false, err
	}
	tips, err := d.Repo.Remotes().RemoteBranches(ctx, remote, w.Branch)
	if err != nil || tips[w.Branch] == "" {
		return false, nil // what is wrong with the remote shows when it is pushed to
	}
	return has(ctx, d.Repo, tips[w.Branch], tip)
}

// strayed is the failure of a branch that has not what was verified.
func (d *Deliverer) strayed(err error, w Work, tip string) error {
	if err != nil {
		return err
	}
	return flow.Fail(string(trellis.PushFailed), "branch %s is not at %.12s any more, the commit that was verified, but at %.12s, which nobody checked; `%s reset --keep %.12s` takes it back there",
		w.Branch, w.Commit, tip, inTree(w), w.Commit)
}

// inTree is git for the task's worktree, as it is typed.
func inTree(w Work) string {
	git := "git -C " + word(w.Worktree)
	if !exists(w.Worktree) {
		git = "git worktree add " + word(w.Worktree) + " " + word(w.Branch) + " && " + git
	}
	return git
}

func orEmpty(err error, w Work, base string) error {
	if err != nil {
		return err
	}
	return flow.Fail(string(trellis.EmptyDiff), "%s has all of branch %s already: there is nothing to deliver", base, w.Branch)
}

// checkout is where the user's hook runs: with the work, as long as that is there.
func (d *Deliverer) checkout(ctx context.Context, w Work) string {
	if w.Worktree != "" {
		if _, err := d.Repo.Refs().Head(ctx, w.Worktree); err == nil {
			return w.Worktree
		}
	}
	return d.Repo.Main
}

func push(remote, branch string) string { return "git push " + word(remote) + " " + word(branch) }

var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`) })

// word is s as one word of a shell.
func word(s string) string {
	if plain().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// pushFailure is what keeps a branch from being pushed, and what to type about commits of others.
func (d *Deliverer) pushFailure(ctx context.Context, w Work, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var hook *git.HookError
	var theirs *git.DivergedError
	fail := flow.Fail(string(trellis.PushFailed), "%s", d.words(err))
	if errors.As(err, &theirs) && theirs.Tip != "" {
		fail.Detail += fmt.Sprintf("; `%s pull --no-rebase %s %s` takes it in, and then `trellis deliver %s` checks both and pushes", inTree(w), word(theirs.Remote), word(theirs.Branch), w.Task)
	}
	fail.Retryable = !errors.As(err, &hook) && theirs == nil
	return fail
}

func (d *Deliverer) prFailure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*flow.Failure)) {
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

// masked is the work without known secrets in what is told of it. What is told is masked before it is escaped: that
// takes a secret apart.
func (d *Deliverer) masked(w Work) Work {
	shown := func(s string) string { return trellis.Visible(d.redact(s)) }
	w.Title, w.Summary, w.Took = shown(w.Title), shown(w.Summary), shown(w.Took)
	w.Criteria, w.Checks = slices.Clone(w.Criteria), slices.Clone(w.Checks)
	for i, c := range w.Criteria {
		w.Criteria[i].Text, w.Criteria[i].Evidence = shown(c.Text), shown(c.Evidence)
	}
	w.Defining = slices.Clone(w.Defining)
	for i, name := range w.Defining {
		w.Defining[i] = d.redact(name)
	}
	for i, c := range w.Checks {
		w.Checks[i].Command = shown(c.Command)
	}
	return w
}

func (d *Deliverer) redact(s string) string {
	if d.Redact == nil {
		return s
	}
	return d.Redact(s)
}
