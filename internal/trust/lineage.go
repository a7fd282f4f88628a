package trust

import (
	"bytes"
	"context"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
)

// lineage tells whether a file that git merged or re-created from other versions is ours: a file in which the edits of two
// people, or two edits of one person, came together is a new version, and is in no commit that anybody typed.
type lineage struct {
	*history
	book         *book
	newer        []git.Touch // changes by commits that the trusted branch does not have
	trunkTouches []git.Touch // changes by the trusted branch itself; nil until needed
	twins        *twins
	ours         map[blobAt]bool
}

func (h *history) newLineage(b *book, touches []git.Touch) *lineage {
	l := &lineage{history: h, book: b, newer: touches, ours: map[blobAt]bool{}}
	l.twins = &twins{judge: h.judge, origins: h.origins}
	if h.trunk.tip != "" {
		l.twins.known = []string{h.trunk.tip}
	}
	return l
}

// isOurs reports whether a commit that git merged or re-created is made of our work alone: all that its parents have in the
// file is ours and, if it was re-created, so is the original.
func (l *lineage) isOurs(ctx context.Context, group []git.Touch) (bool, error) {
	joins := l.origins[group[0].Commit] == mergedByGit
	if !joins {
		if own, err := l.isOurTwin(ctx, group); err != nil || !own {
			return false, err
		}
	}
	for _, t := range group {
		if t.Old == "" {
			if joins { // its content was in another file
				return false, nil
			}
			continue
		}
		if own, err := l.isVersionOurs(ctx, blobAt{t.Path, t.Old}); err != nil || !own {
			return false, err
		}
	}
	return true, nil
}

// isOurTwin reports whether a commit was re-created from one that was made here, and brought nothing else into the file. The same
// author and date are not enough, since anybody can write those.
func (l *lineage) isOurTwin(ctx context.Context, group []git.Touch) (bool, error) {
	if _, err := l.twins.untrustedCommits(ctx); err != nil {
		return false, err
	}
	c, known := l.twins.abouts[group[0].Commit]
	if !known {
		return false, nil
	}
	own, err := l.twins.isOurs(ctx, newBook(), c) // no book: what an agent wrote does not count as a person's, though Trellis committed it
	if err != nil || !own {
		return false, err
	}
	if err := l.loadTrunk(ctx); err != nil {
		return false, err
	}
	var from []string
	for _, t := range slices.Concat(l.newer, l.trunkTouches) {
		o, known := l.twins.abouts[t.Commit]
		same := known && t.Path == group[0].Path && o.Author == c.Author && o.Made == c.Made
		if same && t.Commit != c.Commit && l.origins[t.Commit] != recreated {
			from = append(from, t.New)
		}
	}
	if len(from) == 0 {
		return false, nil
	}
	for _, t := range group {
		from = append(from, t.Old)
	}
	return l.hasOnlyLinesOf(ctx, group[0].New, from)
}

// hasOnlyLinesOf reports whether each line of a blob is in one of the others.
func (l *lineage) hasOnlyLinesOf(ctx context.Context, blob string, others []string) (bool, error) {
	others = slices.DeleteFunc(others, func(o string) bool { return o == "" })
	blobs, err := l.judge.Repo.Provenance().Blobs(ctx, durable.MaxRecords, append(others, blob)...)
	if err != nil || blobs[blob] == nil {
		return false, err
	}
	lines := map[string]bool{}
	for _, o := range others {
		for line := range bytes.Lines(blobs[o]) {
			lines[string(bytes.TrimSpace(line))] = true
		}
	}
	for line := range bytes.Lines(blobs[blob]) {
		if !lines[string(bytes.TrimSpace(line))] {
			return false, nil
		}
	}
	return true, nil
}

// isVersionOurs reports whether all that a version of a file says is ours. A version that says nothing may hide something.
func (l *lineage) isVersionOurs(ctx context.Context, v blobAt) (bool, error) {
	if own, known := l.ours[v]; known {
		return own, nil
	}
	l.ours[v] = false // a version does not prove itself
	for _, id := range l.itemIDs[v] {
		if own, err := l.isItemTrusted(ctx, v.path, id); err != nil || !own {
			return false, err
		}
	}
	l.ours[v] = len(l.itemIDs[v]) > 0
	return l.ours[v], nil
}

// isItemTrusted reports whether an item that a file had at some time is trusted.
func (l *lineage) isItemTrusted(ctx context.Context, file, id string) (bool, error) {
	if how, known := l.book.how[id]; known {
		return how != Revoked, nil
	}
	if err := l.loadTrunk(ctx); err != nil {
		return false, err
	}
	if slices.ContainsFunc(l.trunkTouches, func(t git.Touch) bool { return t.Path == file && l.hasID(blobAt{file, t.New}, id) }) {
		return true, nil
	}
	by, foreign, err := l.broughtBy(ctx, file, id)
	return len(by) > 0 && !foreign, err
}

// loadTrunk finds out what the trusted branch has ever said in these files.
func (l *lineage) loadTrunk(ctx context.Context) (err error) {
	if l.trunkTouches != nil || l.trunk.tip == "" {
		return nil
	}
	var paths []string
	for _, t := range l.newer {
		if !slices.Contains(paths, t.Path) {
			paths = append(paths, t.Path)
		}
	}
	l.trunkTouches, err = l.touches(ctx, git.Reach{Tips: []string{l.trunk.tip}, FirstParent: true}, paths)
	if l.trunkTouches == nil {
		l.trunkTouches = []git.Touch{}
	}
	return err
}
