package trust

import (
	"context"
	"slices"
	"strings"
)

// made says how commits came to be in this clone, as its reflogs tell. Others are from elsewhere, or an agent's.
type made map[string]source

type source int // the larger, the more it is ours

const (
	elsewhere source = iota
	// again is what git made of commits that may be anybody's: rebase, cherry-pick, revert.
	again
	joined // a merge that git made by itself
	here   // git commit
)

func (j *Judge) made(ctx context.Context) (made, error) {
	logs, err := j.Repo.Logged(ctx)
	if err != nil {
		return nil, err
	}
	m := made{}
	for _, l := range logs {
		m[l.Commit] = max(m[l.Commit], sourceOf(l.Said))
	}
	return m, nil
}

// replayed are the steps of a rebase that make a commit.
var replayed = []string{"(pick)", "(reword)", "(edit)", "(squash)", "(fixup)", "(continue)", "(merge)"}

// sourceOf reads what git says of its doing: "commit (amend): subject". Names of branches, which anybody may choose, stand
// there too, but have no space or colon in them and are never first.
func sourceOf(said string) source {
	action, rest, _ := strings.Cut(said, ": ")
	words := strings.Fields(action)
	if len(words) == 0 {
		return elsewhere
	}
	last := words[len(words)-1]
	switch words[0] {
	case "commit":
		switch action {
		case "commit", "commit (initial)", "commit (amend)", "commit (merge)":
			return here
		}
		return again // commit (cherry-pick)
	case "cherry-pick", "revert":
		return again
	case "rebase", "pull":
		if slices.Contains(replayed, last) {
			return again
		}
	}
	if strings.HasPrefix(rest, "Merge made by ") && (words[0] == "merge" || words[0] == "pull") {
		return joined
	}
	return elsewhere
}
