package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

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
func (a *console) cleanRuns(p *app.Project, clean *delivery.Cleaner, o cleanupOptions) error {
	cfg, err := p.ValidConfig()
	if err != nil {
		return err
	}
	all, err := clean.Runs()
	if err != nil {
		return err
	}
	list := clean.Beyond(all, cfg.Runs.Keep, int64(cfg.Runs.Size)*1_000_000)
	if o.task != "" {
		dir, err := p.Find(o.task)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(r delivery.Run) bool { return r.Dir != dir })
	}
	doc := cleanedRuns{Runs: []cleanedRun{}}
	for _, r := range all {
		doc.Size += r.Size
	}
	if remove, err := a.agreedRuns(o, list); err != nil {
		return err
	} else if err := a.removeRuns(p, clean, list, remove, &doc); err != nil {
		return err
	}
	if o.json {
		return terminal.JSON(a.Stdout, doc)
	}
	return doc.print(a.Stdout, o.dryRun)
}

// agreedRuns asks on a terminal whether to delete what is in the list.
func (a *console) agreedRuns(o cleanupOptions, list []delivery.Run) (bool, error) {
	if o.dryRun || len(list) == 0 || o.force || !a.CanAsk() {
		return !o.dryRun, nil
	}
	return a.Confirm(fmt.Sprintf("delete the records of %s for good?", command.Count(len(list), "run")))
}

func (a *console) removeRuns(p *app.Project, clean *delivery.Cleaner, list []delivery.Run, remove bool, doc *cleanedRuns) error {
	for _, r := range list {
		row := cleanedRun{Dir: filepath.ToSlash(p.Store.Rel(r.Dir)), ID: r.ID, Run: r.Number, Ended: r.Ended, Size: r.Size}
		if remove {
			err := clean.RemoveRun(r)
			if errors.Is(err, durable.ErrHeld) || errors.As(err, new(*delivery.KeptError)) {
				a.Say("%s: %v", r.ID, err)
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
