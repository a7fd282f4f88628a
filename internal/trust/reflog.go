package trust

import (
	"context"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
)

// made is how commits came to exist in this clone, according to its reflogs. All others are from elsewhere, or an agent's.
type made map[string]source

type source int // where a commit is from; the larger, the more it is ours

const (
	elsewhere source = iota
	// folded is a commit that a rebase made of several: its author is that of the first alone.
	folded
	// again is a commit that git re-created from others, which may be anybody's: rebase, cherry-pick, revert; git commit --amend too.
	again
	joined // a merge that git made by itself
	here   // git commit
)

func (j *Judge) made(ctx context.Context, t trunk) (made, error) {
	logs, err := j.Repo.Provenance().ReflogEntries(ctx)
	if err != nil {
		return nil, err
	}
	m := made{}
	var amends []git.ReflogEntry
	for _, l := range logs {
		if l.Said == amend || strings.HasPrefix(l.Said, amend+": ") {
			amends = append(amends, l)
		} else {
			m[l.Commit] = max(m[l.Commit], sourceOf(l.Said))
		}
	}
	m.amended(amends, func(commit string) bool {
		if t.tip == "" {
			return false
		}
		merged, err := j.Repo.History().IsAncestor(ctx, commit, t.tip)
		return err == nil && merged // a commit that git no longer has is nobody's
	})
	return m, nil
}

const amend = "commit (amend)"

// amended adds the commits that git commit --amend made. They contain all of the commit before, and are as much ours as that
// was, which may be an amended one too.
func (m made) amended(amends []git.ReflogEntry, merged func(commit string) bool) {
	amended := map[string]bool{}
	for _, l := range amends {
		amended[l.Commit] = true
	}
	for _, l := range amends {
		if m[l.Before] == elsewhere && !amended[l.Before] {
			m[l.Commit] = max(m[l.Commit], again)
			if merged(l.Before) {
				m[l.Commit] = here
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, l := range amends {
			if s := m[l.Before]; s > m[l.Commit] {
				m[l.Commit], changed = s, true
			}
		}
	}
}

// replayed are the steps of a rebase that create a commit.
var replayed = []string{"(pick)", "(reword)", "(edit)", "(continue)", "(merge)"}

// sourceOf reads the message of a reflog entry: "commit (amend): subject". Names of branches, which anybody may choose, are
// part of messages too, but contain no space or colon and never come first.
func sourceOf(said string) source {
	action, rest, _ := strings.Cut(said, ": ")
	words := strings.Fields(action)
	if len(words) == 0 {
		return elsewhere
	}
	last := words[len(words)-1]
	if rest == "fast-forward" {
		return elsewhere // the commit was taken as it is
	}
	switch words[0] {
	case "commit":
		switch action {
		case "commit", "commit (initial)", "commit (merge)":
			return here
		}
		return again // commit (cherry-pick)
	case "cherry-pick", "revert":
		return again
	case "rebase", "pull":
		if last == "(squash)" || last == "(fixup)" {
			return folded
		}
		if slices.Contains(replayed, last) {
			return again
		}
	}
	if strings.HasPrefix(rest, "Merge made by ") && (words[0] == "merge" || words[0] == "pull") {
		return joined
	}
	return elsewhere
}
