package cleanup

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// cleanedRun is a run whose files are deleted, or would be.
type cleanedRun struct {
	Dir     string    `json:"dir"`
	ID      string    `json:"id"`
	Run     string    `json:"run"`
	Ended   time.Time `json:"ended"`
	Size    int64     `json:"size"`
	Removed bool      `json:"removed"`
}

// cleanedRuns is the document of cleanup --runs.
type cleanedRuns struct {
	Runs  []cleanedRun `json:"runs"`
	Size  int64        `json:"size"` // of all runs of completed and archived tasks
	Freed int64        `json:"freed"`
}

// cleanRuns deletes the runs beyond runs.keep and runs.size; with --dry-run it only says which.
func (cmd *cleanup) cleanRuns(limits config.Runs) error {
	all, err := cmd.cleaner.Runs()
	if err != nil {
		return err
	}
	list := cmd.cleaner.Beyond(all, limits.Keep, int64(limits.Size)*1_000_000)
	if cmd.task != "" {
		dir, err := cmd.project.Find(cmd.task)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(r delivery.Run) bool { return r.Dir != dir })
	}
	doc := cleanedRuns{Runs: []cleanedRun{}}
	for _, r := range all {
		doc.Size += r.Size
	}
	if remove, err := cmd.confirmedRuns(list); err != nil {
		return err
	} else if err := cmd.removeRuns(list, remove, &doc); err != nil {
		return err
	}
	if cmd.json {
		return terminal.JSON(cmd.Stdout, doc)
	}
	return doc.print(cmd.Stdout, cmd.dryRun)
}

// confirmedRuns asks on a terminal whether to delete what is in the list.
func (cmd *cleanup) confirmedRuns(list []delivery.Run) (bool, error) {
	if cmd.dryRun || len(list) == 0 || cmd.force || !cmd.CanAsk() {
		return !cmd.dryRun, nil
	}
	return cmd.Confirm(fmt.Sprintf("delete the records of %s for good?", text.Count(len(list), "run")))
}

func (cmd *cleanup) removeRuns(list []delivery.Run, remove bool, doc *cleanedRuns) error {
	for _, r := range list {
		row := cleanedRun{Dir: filepath.ToSlash(cmd.project.Store.Rel(r.Dir)), ID: r.ID, Run: r.Number, Ended: r.Ended, Size: r.Size}
		if remove {
			err := cmd.cleaner.RemoveRun(r)
			if errors.Is(err, durable.ErrHeld) || errors.As(err, new(*delivery.KeptError)) {
				cmd.Say("%s: %v", r.ID, err)
			} else if err != nil {
				return err
			}
			if row.Removed = err == nil; row.Removed {
				doc.Freed += r.Size
			}
		}
		doc.Runs = append(doc.Runs, row)
	}
	return nil
}

func (d cleanedRuns) print(w io.Writer, dryRun bool) error {
	var b strings.Builder
	var beyond int64
	for _, r := range d.Runs {
		beyond += r.Size
		fmt.Fprintf(&b, "%s  run %s  %s  %s\n", r.ID, r.Run, r.Ended.Format(time.DateOnly), size(r.Size))
	}
	if dryRun {
		fmt.Fprintf(&b, "would free %s of %s\n", size(beyond), size(d.Size))
	} else {
		fmt.Fprintf(&b, "freed %s of %s\n", size(d.Freed), size(d.Size))
	}
	_, err := io.WriteString(w, terminal.Safe(b.String()))
	return err
}
