package trust

import (
	"context"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
)

// reflogOrigins are how commits came to exist in this clone, according to its reflogs. All others are from elsewhere, or an agent's.
type reflogOrigins map[string]source

type source int // where a commit is from; the larger, the more it is ours

const (
	fromElsewhere source = iota
	// squashed is a commit that a rebase made of several: its author is that of the first alone.
	squashed
	// recreated is a commit that git re-created from others, which may be anybody's: rebase, cherry-pick, revert; git commit --amend too.
	recreated
	mergedByGit   // a merge that git made by itself
	committedHere // git commit
)

func (j *Judge) reflogOrigins(ctx context.Context, t trunk) (reflogOrigins, error) {
	logs, err := j.Repo.Provenance().ReflogEntries(ctx)
	if err != nil {
		return nil, err
	}
	m := reflogOrigins{}
	var amends []git.ReflogEntry
	for _, l := range logs {
		if l.Said == amend || strings.HasPrefix(l.Said, amend+": ") {
			amends = append(amends, l)
		} else {
			m[l.Commit] = max(m[l.Commit], sourceOf(l.Said))
		}
	}
	m.addAmended(amends, func(commit string) bool {
		if t.tip == "" {
			return false
		}
		merged, err := j.Repo.History().IsAncestor(ctx, commit, t.tip)
		return err == nil && merged // a commit that git no longer has is nobody's
	})
	return m, nil
}

const amend = "commit (amend)"

// addAmended adds the commits that git commit --amend made. They contain all of the commit before, and are as much ours as that
// was, which may be an amended one too.
func (m reflogOrigins) addAmended(amends []git.ReflogEntry, merged func(commit string) bool) {
	amended := map[string]bool{}
	for _, l := range amends {
		amended[l.Commit] = true
	}
	for _, l := range amends {
		if m[l.Before] == fromElsewhere && !amended[l.Before] {
			m[l.Commit] = max(m[l.Commit], recreated)
			if merged(l.Before) {
				m[l.Commit] = committedHere
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

// rebaseSteps are the steps of a rebase that create a commit.
var rebaseSteps = []string{"(pick)", "(reword)", "(edit)", "(continue)", "(merge)"}

// sourceOf reads the message of a reflog entry: "commit (amend): subject". Names of branches, which anybody may choose, are
// part of messages too, but contain no space or colon and never come first.
func sourceOf(said string) source {
	action, rest, _ := strings.Cut(said, ": ")
	words := strings.Fields(action)
	if len(words) == 0 {
		return fromElsewhere
	}
	last := words[len(words)-1]
	if rest == "fast-forward" {
		return fromElsewhere // the commit was taken as it is
	}
	switch words[0] {
	case "commit":
		switch action {
		case "commit", "commit (initial)", "commit (merge)":
			return committedHere
		}
		return recreated // commit (cherry-pick)
	case "cherry-pick", "revert":
		return recreated
	case "rebase", "pull":
		if last == "(squash)" || last == "(fixup)" {
			return squashed
		}
		if slices.Contains(rebaseSteps, last) {
			return recreated
		}
	}
	if strings.HasPrefix(rest, "Merge made by ") && (words[0] == "merge" || words[0] == "pull") {
		return mergedByGit
	}
	return fromElsewhere
}
