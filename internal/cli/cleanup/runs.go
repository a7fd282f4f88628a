package cleanup

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cleanedRun is a run whose files are deleted, or would be.
type cleanedRun struct {
	cleanup.Run
	Dir     string `json:"dir"` // relative to the top of the repository
	Removed bool   `json:"removed"`
}

// cleanedRuns is the document of cleanup --runs.
type cleanedRuns struct {
	Runs  []cleanedRun `json:"runs"`
	Size  int64        `json:"size"` // of all runs of completed and archived tasks
	Freed int64        `json:"freed"`
}

// cleanRuns deletes the runs beyond runs.keep and runs.size; with --dry-run it only prints them.
func (cmd *call) cleanRuns(limits config.Runs) error {
	runs := cleanup.Runs{Store: cmd.project.Store, Now: cmd.Now}
	all, err := runs.List()
	if err != nil {
		return err
	}
	list := runs.Expired(all, limits.Keep, int64(limits.Size)*1_000_000)
	if cmd.task != "" {
		dir, err := cmd.project.Find(cmd.task)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(r cleanup.Run) bool { return r.Dir != dir })
	}
	doc := cleanedRuns{Runs: []cleanedRun{}}
	for _, r := range all {
		doc.Size += r.Size
	}
	if remove, err := cmd.confirmRuns(list); err != nil {
		return err
	} else if err := cmd.removeRuns(runs, list, remove, &doc); err != nil {
		return err
	}
	if cmd.json {
		return terminal.JSON(cmd.Stdout, doc)
	}
	return doc.print(cmd.Stdout, cmd.dryRun)
}

// confirmRuns asks on a terminal whether to delete the runs in list.
func (cmd *call) confirmRuns(list []cleanup.Run) (bool, error) {
	if cmd.dryRun || len(list) == 0 || cmd.force || !cmd.CanAsk() {
		return !cmd.dryRun, nil
	}
	return cmd.Confirm(fmt.Sprintf("delete the records of %s for good?", text.Count(len(list), "run")))
}

func (cmd *call) removeRuns(runs cleanup.Runs, list []cleanup.Run, remove bool, doc *cleanedRuns) error {
	for _, r := range list {
		row := cleanedRun{Run: r, Dir: filepath.ToSlash(cmd.project.Store.Rel(r.Dir))}
		if remove {
			err := runs.Remove(r)
			if errors.Is(err, durable.ErrHeld) || errors.As(err, new(*cleanup.KeptError)) {
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
		fmt.Fprintf(&b, "%s  run %s  %s  %s\n", r.ID, r.Number, r.Ended.Format(time.DateOnly), text.Bytes(r.Size))
	}
	if dryRun {
		fmt.Fprintf(&b, "would free %s of %s\n", text.Bytes(beyond), text.Bytes(d.Size))
	} else {
		fmt.Fprintf(&b, "freed %s of %s\n", text.Bytes(d.Freed), text.Bytes(d.Size))
	}
	_, err := io.WriteString(w, trellis.Visible(b.String()))
	return err
}
