package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/secrets"
)

// maxScanned is how much of what is added to one file is scanned, in bytes.
const maxScanned = 4 << 20

// leakError says that secrets would be committed, and where they are.
type leakError struct{ places []string }

func (e *leakError) Error() string { return "there are secrets in it: " + joinFirst(e.places) }

// search looks for secrets in what a run adds to its base. The base says what is ignored: nothing that an agent writes changes
// that.
type search struct {
	*secrets.Scanner
	repo       *git.Repo
	job        Job
	pathPrefix string   // prefix of all paths: the path of a submodule
	excluded   []string // paths that are in no commit of this run, see [NeverCommitted]
	notes      []string
	cleanTree  string // tree that holds no secrets other than those of the base
}

func (s *search) note(texts ...string) {
	for _, text := range texts {
		if !slices.Contains(s.notes, text) {
			s.notes = append(s.notes, text)
		}
	}
}

// addedSecrets returns the places of secrets in what is added, see [git.History.AddedLines]. Secrets that the base holds anywhere
// are left out: this run did not add them.
func (s *search) addedSecrets(ctx context.Context, from, to string) (places []string, err error) {
	var found []secrets.Finding
	err = s.repo.History().AddedLines(ctx, s.job.Worktree, from, to, maxScanned, func(t git.Hunk) {
		if to == "" && git.Covers(s.excluded, t.Path) {
			return
		}
		found = append(found, s.Scan(t.Path, t.First, t.Text)...)
		if t.Cut && !strings.Contains(t.Text, "\x00") {
			s.note(fmt.Sprintf("only the first %d MiB that were added to %s were looked through for secrets", maxScanned>>20, shortList([]string{t.Path})[0]))
		}
	})
	if err != nil {
		return nil, err
	}
	return s.newPlaces(ctx, found)
}

// newPlaces returns the places of those findings that the base does not hold.
func (s *search) newPlaces(ctx context.Context, found []secrets.Finding) (places []string, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	held, err := s.repo.History().TextsAt(ctx, s.job.BaseCommit, valuesOf(found))
	for _, f := range found {
		if place := s.pathPrefix + f.String(); !held[longestLine(f.Value())] && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return shortList(places), err
}

// inspect returns a *leakError if there are secrets in what is about to be committed.
func (s *search) inspect(ctx context.Context) error {
	s.cleanTree = ""
	tree := s.repo.Index().Staged(s.job.Worktree)
	places, err := s.addedSecrets(ctx, s.job.BaseCommit, "")
	switch {
	case err != nil:
		return err
	case len(places) > 0:
		return &leakError{places}
	case s.repo.Index().Staged(s.job.Worktree) == tree:
		s.cleanTree = tree
	}
	return nil
}

// secretsInCommits returns the places of secrets in the commits of the branch, each taken alone, since a push shows them all, and
// of paths that are never committed. A single commit of the tree that was searched when it was staged is not searched again.
func (s *search) secretsInCommits(ctx context.Context, tip string) (places []string, err error) {
	if s.cleanTree != "" && s.repo.History().HasTreeAndParent(tip, s.job.BaseCommit, s.cleanTree) {
		return nil, nil
	}
	list, err := s.repo.History().Between(ctx, s.job.BaseCommit, s.job.BaseBranch, tip)
	if err != nil {
		return nil, err
	}
	messages, err := s.repo.History().Messages(ctx, list)
	if err != nil {
		return nil, err
	}
	touched, err := s.repo.History().Touched(ctx, list, s.excluded)
	if err != nil {
		return nil, err
	}
	for _, path := range touched {
		places = append(places, s.pathPrefix+shortList([]string{path})[0]+", which is not committed")
	}
	for _, sha := range list {
		more, err := s.addedSecrets(ctx, "", sha)
		if err != nil {
			return nil, err
		}
		inWords, err := s.newPlaces(ctx, s.Scan(messagePath, 1, messages[sha]))
		if err != nil {
			return nil, err
		}
		for _, place := range append(more, inWords...) {
			places = append(places, fmt.Sprintf("%s in %.12s", place, sha))
		}
	}
	return shortList(places), nil
}

// mask returns a text for people without secrets. A scan finds one secret of a kind per line, so it is repeated.
func (s *search) mask(text string) string {
	const most = 20
	for range most {
		before := text
		for _, f := range s.Scan(messagePath, 1, text) {
			if v := f.Value(); v != "" {
				text = strings.ReplaceAll(text, v, "***")
			}
		}
		if text == before {
			break
		}
	}
	return text
}

// leaks finds secrets in what a run adds.
type leaks struct {
	place
	secrets []string
}

func (l *leaks) search(ctx context.Context, j Job) (*search, error) {
	const config, ignore = ".gitleaks.toml", ".gitleaksignore"
	texts, err := l.repo.History().Read(ctx, j.BaseCommit, config, ignore)
	if err != nil {
		return nil, err
	}
	scanner, wrong := secrets.New(secrets.Options{Config: texts[config], Ignore: texts[ignore], Known: slices.Concat(l.secrets, secrets.ValuesIn(j.Repo, j.Setup.Copy))})
	s := &search{Scanner: scanner, repo: l.repo, job: j, excluded: NeverCommitted(j)}
	if len(wrong) > 0 {
		s.note(".gitleaks.toml of the base does not count in: " + joinFirst(wrong))
	}
	return s, nil
}

// Masker returns a function that masks, in texts for others, all that a commit of the job must not hold, whoever's environment has
// it: what looks like a secret by the rules, and the values that are known here.
func (l *leaks) Masker(ctx context.Context, j Job) (func(string) string, error) {
	s, err := l.search(ctx, j)
	if err != nil {
		return nil, err
	}
	return func(text string) string { return s.mask(l.task.redact(text)) }, nil
}

// retract takes back the commits of the branch if one of them holds a secret, or a path that must not be committed, and returns
// the places. The commits are kept under a ref that no push includes.
func (l *leaks) retract(ctx context.Context, c flow.Call, s *search, try int) ([]string, error) {
	tip, err := s.repo.Refs().Branch(ctx, s.job.Branch)
	if err != nil || tip == s.job.BaseCommit {
		return nil, err
	}
	places, err := s.secretsInCommits(ctx, tip)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	ref := l.task.backupRef(c) + "-" + strconv.Itoa(try)
	if _, err := snapshot.NewBackups(s.repo).PinBranch(ctx, s.job.Branch, ref); err != nil {
		return nil, err
	}
	s.note(fmt.Sprintf("commits of %s held what they may not (%s): they were taken back, and are kept as %s; don't push that", filepath.Base(s.job.Branch), joinFirst(places), ref))
	if err := s.repo.Refs().MoveRef(ctx, git.BranchPrefix+s.job.Branch, s.job.BaseCommit, tip); err != nil {
		return places, fmt.Errorf("taking back what %s has: %w", s.job.Branch, err)
	}
	return places, nil
}

// maskDiff masks the secrets that a diff adds: nobody needs them to judge it.
func (l *leaks) maskDiff(ctx context.Context, j Job, diff string) (string, error) {
	if diff == "" {
		return "", nil
	}
	s, err := l.search(ctx, j)
	if err != nil {
		return "", err
	}
	const begin = "diff --git "
	parts := strings.SplitAfter(diff, "\n"+begin)
	for i, part := range parts {
		_, path, _ := strings.Cut(part, "\n+++ b/")
		path, _, _ = strings.Cut(path, "\n")
		for _, f := range s.Scan(strings.TrimSuffix(path, "\t"), 1, part) {
			for line := range strings.SplitSeq(f.Value(), "\n") {
				if line = strings.TrimLeft(line, "+"); len(line) >= minSecretLine { // lines of a diff begin with it
					parts[i] = strings.ReplaceAll(parts[i], line, "***")
				}
			}
		}
	}
	return strings.Join(parts, ""), nil
}

func valuesOf(found []secrets.Finding) (list []string) {
	for _, f := range found {
		if line := longestLine(f.Value()); line != "" {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// minSecretLine is the length, in bytes, from which a text in another place is taken for the same secret.
const minSecretLine = 8

// longestLine returns the longest line of a secret, "" if it is shorter than minSecretLine.
func longestLine(value string) (line string) {
	for l := range strings.SplitSeq(value, "\n") {
		if len(l) > len(line) {
			line = l
		}
	}
	if len(line) < minSecretLine {
		return ""
	}
	return line
}

// messagePath stands for the message of a commit where a path is expected.
const messagePath = "commit message"
