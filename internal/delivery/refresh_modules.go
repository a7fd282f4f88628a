package delivery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/github"
)

// modules looks at the pull requests that were opened for a task in submodules. Of what is in the way of one of them nobody
// hears but by a note: no run works on it.
func (r *Remote) modules(ctx context.Context, l Leftover, out *Refreshed) ([]ModulePull, error) {
	list := []ModulePull{}
	known, err := ReadRecord(RecordFile(l.Dir))
	if err != nil {
		return list, err
	}
	for _, path := range slices.Sorted(maps.Keys(known.Modules)) {
		p, err := r.module(ctx, l, path)
		switch {
		case ctx.Err() != nil:
			return list, context.Cause(ctx)
		case err != nil:
			out.Notes, out.Silent = append(out.Notes, fmt.Sprintf("%s: the pull request of %s was not looked at: %v", l.ID, path, err)), true
		case p != nil:
			list = append(list, *p)
			if wrong := p.wrong(); wrong != "" {
				out.Notes = append(out.Notes, fmt.Sprintf("%s: the pull request of %s, which comes first, %s: %s", l.ID, path, wrong, p.URL))
			}
		}
	}
	return list, nil
}

// module looks at the pull request in one submodule, nil when there is none any more.
func (r *Remote) module(ctx context.Context, l Leftover, path string) (*ModulePull, error) {
	m, err := r.Cleaner.Repo.Modules().Module(ctx, l.task.Commit, path)
	if err != nil {
		return nil, err
	}
	f := *r.Forge
	f.Dir = m.Main
	pr, err := f.Find(ctx, l.task.BranchName())
	if err != nil || pr == nil {
		return nil, err
	}
	p := &ModulePull{Path: path, Number: pr.Number, URL: pr.URL, State: state(pr), Failing: []string{}}
	if pr.State == github.Open {
		s, err := f.Status(ctx, pr.Number)
		if err != nil {
			return nil, err
		}
		p.Checks, p.Review, p.Failing = s.Checks, s.Review, append(p.Failing, s.Failing...)
	}
	return p, nil
}

// wrong says what keeps it from being merged, "" when nothing is known to.
func (p ModulePull) wrong() string {
	switch {
	case p.State == "closed":
		return "was closed without a merge"
	case p.Checks == github.Failed:
		return "has checks that fail (" + strings.Join(p.Failing, ", ") + ")"
	case p.Review == github.ChangesWanted:
		return "is to be changed, as its reviewers say"
	}
	return ""
}
