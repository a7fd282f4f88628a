package mcpserver

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxName is how long the name of a task may be, in bytes; file systems allow no longer ones.
const maxName = 255

// find returns the directory of the task that a client names: by its directory's name, with or without the day, not by a path.
func find(p *app.Project, ref string) (dir string, err error) {
	if ref == "" {
		return "", app.WithHints(app.Usagef("task is missing: it is the name of a task"), "task_list")
	}
	if len(ref) > maxName || !utf8.ValidString(ref) || ref[0] == '.' || strings.ContainsAny(ref, `/\`) || strings.ContainsFunc(ref, unicode.IsControl) {
		return "", app.WithHints(app.AsKind(app.ErrNotFound, fmt.Errorf("%q is not the name of a task", text.Clip(strings.ToValidUTF8(ref, "�"), 60))), "task_list")
	}
	dir, err = p.Find(ref)
	if err != nil && app.KindOf(err) == app.ErrNotFound {
		err = app.WithHints(err, "task_list")
	}
	return dir, err
}

// nameOf returns what a client calls the task in a directory, even while it is planned.
func nameOf(dir string) string { return strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix) }

// brief returns a text of a task on one line of up to most columns.
func brief(s string, most int) string { return clip(trellis.VisibleLine(s), most) }

// clip returns a text up to most columns wide, with at most twice as many bytes in an answer: some characters have no width.
func clip(s string, most int) string {
	s = text.Clip(strings.ToValidUTF8(s, "�"), most)
	room := 2 * most
	for i, r := range s {
		if room -= jsonSize(string(r)); room < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// briefs returns the first most texts of a list in brief, and how many more there are.
func briefs(list []string, most, letters int) (short []string) {
	for i, s := range list {
		if i == most {
			return append(short, fmt.Sprintf("… %d more", len(list)-most))
		}
		short = append(short, brief(s, letters))
	}
	return short
}
