package contextfiles

import (
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	tasksDir   = ".trellis/tasks/"
	archiveDir = tasksDir + "archive"
)

// currentPath returns a path's current location: files of a task that has been archived are in the archive, in the newest month that
// has them.
func (t tree) currentPath(clean string) string {
	rest, ok := strings.CutPrefix(clean, tasksDir)
	if !ok || strings.HasPrefix(clean, archiveDir+"/") || t.exists(clean) {
		return clean
	}
	months, err := durable.ReadDirBelow(t.dir, archiveDir)
	if err != nil {
		return clean
	}
	for _, m := range slices.Backward(months) {
		if there := path.Join(archiveDir, m.Name(), rest); t.exists(there) {
			return there
		}
	}
	return clean
}

func (t tree) exists(clean string) bool {
	_, err := t.root.Lstat(clean)
	return err == nil
}

// nearestPath returns the existing path that a missing one probably means, "" for none: each missing part is replaced by the name in
// its folder that is spelled most like it.
func (t tree) nearestPath(clean string) string {
	at := "."
	for part := range strings.SplitSeq(clean, "/") {
		if next := path.Join(at, part); t.exists(next) {
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
