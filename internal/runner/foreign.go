package runner

import (
	"context"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// ForeignError is a journal that no run of this clone wrote: it came by git, or with a copied directory. Whoever wrote it
// could have any answer of any step in it, so it is not gone on with.
type ForeignError struct{ trellis.Problem }

func (e *ForeignError) Error() string { return e.Problem.Error() }
func (e *ForeignError) Unwrap() error { return &e.Problem }

// ours says why a journal is not gone on with, nil when it is. One that does not say where it began is from before journals
// said so, unless git has it.
func (s guard) ours(ctx context.Context, dir string, h *journal.History) error {
	if h == nil || h.Empty() {
		return nil
	}
	path := s.Store.Rel(filepath.Join(dir, taskdir.Journal))
	if h.Clone == "" {
		if tracked, err := s.Repo.History().Tracks(ctx, path); err != nil || !tracked {
			return err
		}
		return s.foreign(dir, path, "was committed to git, and does not say where its run began")
	}
	if mine, err := s.Repo.CloneID(); err != nil || mine == h.Clone {
		return err
	}
	return s.foreign(dir, path, "is of a run that began in another clone of the repository")
}

func (s guard) foreign(dir, path, why string) error {
	p := trellis.Problem{File: path, Message: "its journal, run/journal.jsonl, " + why + ": it is not gone on with here", Hint: "trellis retry " + filepath.Base(dir)}
	if filepath.Dir(dir) != s.Store.Tasks() {
		p.Hint = "trellis run FILE"
	}
	return &ForeignError{p}
}
