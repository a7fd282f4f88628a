package trust

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// Base judges a commit that a worktree is made on, since the project's own commands run its files: it judges each commit in
// its history that the trusted branch does not have, except those that somebody here agreed to or made.
func (j *Judge) Base(ctx context.Context, commit string) (Verdict, error) {
	v := Verdict{Subject: BasePrefix + commit}
	if j.Everything {
		return v, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.book()
	if err != nil || b.trustsHistory(commit) {
		return v, err
	}
	t, err := j.trunk(ctx, b)
	if err != nil {
		return v, err
	}
	logged, err := j.Repo.Provenance().ReflogEntries(ctx)
	if err != nil {
		return v, err
	}
	by := basis{t.tip, b.lines, len(logged)}
	if seen, ok := j.bases[commit]; ok && seen.basis == by {
		return seen.verdict, nil
	}
	if err := j.judgeBase(ctx, &v, b, t, commit); err != nil {
		return v, fmt.Errorf("looking where commit %s is from: %w", commit, err)
	}
	if !v.Trusted() {
		if j.bases == nil {
			j.bases = map[string]foreignBase{}
		}
		j.bases[commit] = foreignBase{by, v}
	}
	if v.Trusted() && commit != t.tip {
		v.Unsaved = j.storeFound(b, []Entry{{ID: commit, How: Made, Subject: v.Subject, Kind: CommitKind}})
	}
	return v, nil
}

// foreignBase is the verdict on a commit that is from somebody else. The commit is not judged again while the basis is the same.
type foreignBase struct {
	basis   basis
	verdict Verdict
}

// basis is what a verdict on a commit depends on.
type basis struct {
	tip    string // tip of the trusted branch
	lines  int    // lines of the ledger
	logged int    // entries of reflogs
}

func (j *Judge) judgeBase(ctx context.Context, v *Verdict, b *book, t trunk, commit string) error {
	if t.tip != "" {
		if merged, err := j.Repo.History().IsAncestor(ctx, commit, t.tip); merged || err != nil {
			return err
		}
	}
	known := b.trustedCommits()
	if t.tip != "" {
		known = append(known, t.tip)
	}
	list, err := j.Repo.Provenance().Abouts(ctx, git.Reach{Tips: []string{commit}, Not: known})
	if err != nil || len(list) == 0 {
		return err
	}
	made, err := j.reflogOrigins(ctx, t)
	if err != nil {
		return err
	}
	twins := &twins{judge: j, origins: made, known: known}
	for _, c := range list {
		ours, err := twins.isOurs(ctx, b, c)
		if err != nil {
			return err
		}
		i := Item{Kind: CommitKind, Text: c.Commit + " " + c.Subject}
		v.Items = append(v.Items, i)
		if !ours {
			v.Foreign = append(v.Foreign, Foreign{Item: i, Commit: c.Commit, Author: c.Author, Date: time.Unix(c.Made, 0)})
		}
	}
	return nil
}

// trustsHistory reports whether a commit is trusted with all its history.
func (b *book) trustsHistory(commit string) bool {
	how := b.how[commit]
	return how == Agreed || how == Made
}

// trustedCommits returns the commits that are trusted with all their history.
func (b *book) trustedCommits() (list []string) {
	for _, id := range slices.Sorted(maps.Keys(b.how)) {
		if b.trustsHistory(id) && b.commits[id] {
			list = append(list, id)
		}
	}
	return list
}

// twins tell whose a commit is that git re-created from another one: the original has the same author and date, and still
// exists on somebody's branch or in a reflog.
type twins struct {
	judge   *Judge
	origins reflogOrigins
	known   []string

	untrusted map[author][]string // commits that are not known to be trusted; nil until needed
	trusted   map[author][]string
	abouts    map[string]git.About // of the commits in untrusted and trusted
}

type author struct {
	who  string
	when int64
}

// isOurs reports whether a commit was made here, by a person or by Trellis.
func (t *twins) isOurs(ctx context.Context, b *book, c git.About) (bool, error) {
	if b.how[c.Commit] == Commit {
		return true, nil
	}
	switch t.origins[c.Commit] {
	case committedHere, mergedByGit:
		return true, nil
	case fromElsewhere:
		return false, nil
	}
	a := author{c.Author, c.Made}
	others, err := t.untrustedCommits(ctx)
	if err != nil {
		return false, err
	}
	first := false
	for _, twin := range others[a] {
		switch {
		case t.origins[twin] == committedHere, b.how[twin] == Commit:
			first = true
		case t.origins[twin] == fromElsewhere:
			return false, nil
		}
	}
	if first {
		return true, nil
	}
	merged, err := t.trustedCommits(ctx) // it was picked from the trusted branch
	return len(merged[a]) > 0, err
}

// untrustedCommits returns the commits that are not known to be trusted.
func (t *twins) untrustedCommits(ctx context.Context) (_ map[author][]string, err error) {
	if t.untrusted == nil {
		passed, err := t.judge.Repo.Provenance().FormerCommits()
		if err != nil {
			return nil, err
		}
		if t.untrusted, err = t.commitsByAuthor(ctx, git.Reach{All: true, Tips: passed, Not: t.known}); err != nil {
			return nil, err
		}
	}
	return t.untrusted, nil
}

// trustedCommits returns the commits that are known to be trusted.
func (t *twins) trustedCommits(ctx context.Context) (_ map[author][]string, err error) {
	if t.trusted == nil && len(t.known) > 0 {
		t.trusted, err = t.commitsByAuthor(ctx, git.Reach{Tips: t.known})
	}
	return t.trusted, err
}

func (t *twins) commitsByAuthor(ctx context.Context, reach git.Reach) (map[author][]string, error) {
	list, err := t.judge.Repo.Provenance().Abouts(ctx, reach)
	all := map[author][]string{}
	if t.abouts == nil {
		t.abouts = map[string]git.About{}
	}
	for _, c := range list {
		t.abouts[c.Commit] = c
		a := author{c.Author, c.Made}
		all[a] = append(all[a], c.Commit)
	}
	return all, err
}
