package contextfiles

import (
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	tasks   = ".trellis/tasks/"
	archive = tasks + "archive"
)

// now returns a path's current location: files of a task that has been archived are in the archive, in the newest month that
// has them.
func (t tree) now(clean string) string {
	rest, ok := strings.CutPrefix(clean, tasks)
	if !ok || strings.HasPrefix(clean, archive+"/") || t.has(clean) {
		return clean
	}
	months, err := durable.ReadDirBelow(t.dir, archive)
	if err != nil {
		return clean
	}
	for _, m := range slices.Backward(months) {
		if there := path.Join(archive, m.Name(), rest); t.has(there) {
			return there
		}
	}
	return clean
}

func (t tree) has(clean string) bool {
	_, err := t.root.Lstat(clean)
	return err == nil
}

// near returns the existing path that a missing one probably means, "" for none: each missing part is replaced by the name in
// its folder that is spelled most like it.
func (t tree) near(clean string) string {
	at := "."
	for part := range strings.SplitSeq(clean, "/") {
		if next := path.Join(at, part); t.has(next) {
			at = next
			continue
		}
		entries, err := durable.ReadDirBelow(t.dir, at)
		if err != nil {
			return ""
		}
		var names []string
		for _, e := range entries {
			if e.Name() != ".git" {
				names = append(names, e.Name())
			}
		}
		found := trellis.Nearest(part, names)
		if found == "" {
			return ""
		}
		at = path.Join(at, found)
	}
	return at
}
