package planner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Rejection is what REJECTED.md says.
type Rejection struct {
	Category    string // one of the five, or empty when a person rejected
	By          string // the person
	Details     string
	Suggestions []string
	Dir         string // the task's directory relative to the repository
	Name        string
	DevType     string
}

// reasons are the labels of the five categories, as REJECTED.md shows them.
var reasons = map[string]string{
	"unclear":      "Unclear or Vague",
	"incomplete":   "Incomplete Information",
	"out_of_scope": "Out of Scope for This Project",
	"harmful":      "Potentially Harmful",
	"too_large":    "Too Large / Should Be Split",
}

// Reason is the rejection's label.
func (r Rejection) Reason() string {
	if r.By != "" {
		return "Rejected by " + r.By
	}
	return reasons[r.Category]
}

// Render is REJECTED.md.
func (r Rejection) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Plan Rejected\n\n## Reason\n\n%s\n\n## Details\n\n%s\n\n## Suggestions\n\n", r.Reason(), strings.TrimSpace(r.Details))
	bullets(&b, r.Suggestions)
	dir, name := trellis.ShellWord(r.Dir), trellis.ShellWord(r.Name)
	fmt.Fprintf(&b, "\n## To Retry\n\nPlan again in place, which keeps this page as REJECTED-1.md:\n\n    trellis plan --retry %s --requirement '<revised requirement>'\n", dir)
	fmt.Fprintf(&b, "\nOr remove the directory and begin afresh:\n\n    trellis task rm %s\n    trellis plan --name %s --type %s --requirement '<revised requirement>'\n", dir, name, trellis.ShellWord(orBackend(r.DevType)))
	return trellis.Visible(b.String())
}

func orBackend(devType string) string {
	if devType == "" {
		return trellis.DevTypes[0]
	}
	return devType
}

// KeepRejection moves REJECTED.md of an earlier planning out of the way: REJECTED-1.md, -2, …
func KeepRejection(disk *durable.Disk, dir string) error {
	old := filepath.Join(dir, taskdir.Rejected)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for n := 1; ; n++ {
		to := filepath.Join(dir, fmt.Sprintf("REJECTED-%d.md", n))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return disk.Rename(old, to)
		}
	}
}

// lastRejection is the verdict that the feedback is about, and its file, "" when there is none.
func (f files) lastRejection() (file string, verdict []byte) {
	for n := 1; ; n++ {
		next := fmt.Sprintf("REJECTED-%d.md", n)
		data, err := taskdir.ReadFile(f.dir, next)
		if err != nil {
			return file, verdict
		}
		file, verdict = next, data
	}
}
