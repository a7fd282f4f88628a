package durable

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// abandonedAfter is how long a temporary file must not have changed, or been renamed, to count as abandoned.
const abandonedAfter = time.Hour

// Sweep removes the temporary files in the folder dir whose writers were killed: those that nobody has locked and that did not
// change for an hour. Files that can't be inspected or removed stay.
func Sweep(dir string, now time.Time) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), TempPrefix) || unix.Lstat(path, &st) != nil {
			continue
		}
		if now.Sub(time.Unix(st.Ctim.Unix())) > abandonedAfter {
			removeAbandoned(path)
		}
	}
}
