package trust

import (
	"context"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
)

// made says how commits came to be in this clone, as its reflogs tell. Others are from elsewhere, or an agent's.
type made map[string]source

type source int // the larger, the more it is ours

const (
	elsewhere source = iota
	// folded are several commits that a rebase made one of: its author is that of the first alone.
	folded
	// again is what git made of commits that may be anybody's: rebase, cherry-pick, revert; git commit --amend too.
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
		return err == nil && merged // a commit that git has forgotten is nobody's
	})
	return m, nil
}

const amend = "commit (amend)"

// amended takes in commits that git commit --amend made, which have all that the one before had: they are as much ours as
// that was. One that was amended may have been amended before.
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

// replayed are the steps of a rebase that make a commit.
var replayed = []string{"(pick)", "(reword)", "(edit)", "(continue)", "(merge)"}

// sourceOf reads what git says of its doing: "commit (amend): subject". Names of branches, which anybody may choose, stand
// there too, but have no space or colon in them and are never first.
func sourceOf(said string) source {
	action, rest, _ := strings.Cut(said, ": ")
	words := strings.Fields(action)
	if len(words) == 0 {
		return elsewhere
	}
	last := words[len(words)-1]
	if rest == "fast-forward" {
		return elsewhere // what was picked is as it was
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
