package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
)

// ShowRun prints the run of a file for people.
func ShowRun(w io.Writer, r status.Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", r.ID, text.Clip(r.File, 200))
	t := task{status.Task{HeldBy: r.HeldBy, Failure: r.Failure}}
	for _, row := range [][2]string{{"status", r.Status}, {"began", r.Began}, {"held by", t.holder()}, {"at", r.At}, {"done", fmt.Sprintf("%d steps", r.Done)},
		{"waits for", strings.Join(r.Waits, ", ")}, {"failure", t.failure()}, {"updated", r.UpdatedAt}, {"next", r.Next()}} {
		if row[1] != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", row[0], text.Clip(row[1], 400))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
