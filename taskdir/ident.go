package taskdir

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SplitID splits a directory name: 02-01-auth has the day 02-01 and the name auth. If it does not begin with a valid month and
// day, all of it is the name.
func SplitID(id string) (day, name string) {
	id = strings.TrimPrefix(id, DraftPrefix)
	const layout = "2006-01-02-"
	if len(id) > len("01-02-") {
		day, name = id[:len("01-02")], id[len("01-02-"):]
		if _, err := time.Parse(layout, "2000-"+day+id[len(day):len(day)+1]); err == nil { // 2000 had a 29th of February
			return day, name
		}
	}
	return "", id
}

// Made returns the day on which a task was created: createdAt, or else the month and day in its directory's name, taken to be
// within the last twelve months, or else today. now is the current time.
func (t *Task) Made(now time.Time) time.Time {
	if made, err := time.Parse(time.DateOnly, t.CreatedAt); err == nil {
		return made
	}
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	day, _ := SplitID(t.ID)
	for year := today.Year(); day != "" && year > today.Year()-8; year-- { // February 29 needs a leap year
		made, err := time.Parse(time.DateOnly, fmt.Sprintf("%04d-%s", year, day))
		if err == nil && !made.After(today.AddDate(0, 0, 1)) { // elsewhere it may be tomorrow already
			return made
		}
	}
	return today
}

// Made returns the day on which a task was created, by the store's clock.
func (s Store) Made(t *Task) time.Time { return t.Made(s.Clock()) }

// ValidID reports whether a directory name can be a task's identity, which is used in environment variables, git refs and
// messages: letters, digits, dots, dashes and underscores, no leading dot or dash, no longer than a day and a name may be, and
// usable as a folder on every system.
func ValidID(id string) bool {
	odd := func(c rune) bool { return !plainChar(c) && c != '.' && c != '-' }
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, odd) && id[0] != '.' && id[0] != '-' && !strings.EqualFold(id, archiveName) &&
		!strings.Contains(id, "..") && !strings.HasSuffix(id, ".") && !strings.HasSuffix(id, ".lock") && !isDevice(id)
}

// maxID is the maximum length of a task directory's name, in bytes.
const maxID = len("01-02-") + maxForeignName

// isDevice reports whether a file of that name is a device on Windows, with any extension.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "COM") || strings.HasPrefix(stem, "LPT")) && stem[3] >= '1' && stem[3] <= '9'
}

// checkID records a problem for an unusable directory name, and derives the task's name from it if the file has none.
func (t *Task) checkID(file string) {
	_, name := SplitID(t.ID)
	if id := strings.TrimPrefix(t.ID, DraftPrefix); !ValidID(id) {
		t.Problems = append(t.Problems, trellis.Problem{File: file, Message: idFault(id), Hint: renameHint(file, id)})
	}
	if t.Name != "" {
		return
	}
	if t.Name = name; !trellis.ValidName(name) {
		t.Name = trellis.Slug(name)
	}
}

// idFault describes why a directory of that name can't be a task.
func idFault(id string) string {
	switch {
	case len(id) > maxID:
		return fmt.Sprintf("the directory name has %d bytes, which is too long to name a task: at most %d", len(id), maxID)
	case isDevice(id):
		return fmt.Sprintf("the directory name %q can't name a task: it is a device on Windows, where nobody could check it out", id)
	}
	return fmt.Sprintf("the directory name %q can't name a task: letters, digits and single dashes, like 02-01-user-auth", id)
}

// renameHint returns the command that renames a directory to the nearest valid name.
func renameHint(file, id string) string {
	day, name := SplitID(id)
	next := trellis.Slug(name)
	if day != "" {
		next = day + "-" + next
	}
	if !ValidID(next) {
		next = "task-" + next
	}
	if !ValidID(next) {
		return "rename the directory"
	}
	return "mv " + trellis.ShellWord(file) + " " + trellis.ShellWord(path.Join(path.Dir(file), next))
}

// Defaults fills in, in memory only, what a hand-written task.json left out: the title from the first heading of prd.md, or
// else the name, and the branch. base_branch stays empty: its default is the branch that is checked out when the task is
// claimed.
func Defaults(t *Task) {
	t.Title = t.ShownTitle()
	t.Branch = t.BranchName()
}

// ShownTitle returns the title for display: that of task.json, or else the first heading of prd.md, or else the name.
func (t *Task) ShownTitle() string {
	if strings.TrimSpace(t.Title) != "" {
		return t.Title
	}
	if data, err := ReadFile(t.Dir, PRD); err == nil {
		if h := heading(string(data)); h != "" {
			return h
		}
	}
	return t.Name
}

// heading returns the text of the first "# " line outside of code fences, without the "Task:" that Trellis puts before a title.
func heading(text string) string {
	fence := ""
	for line := range strings.Lines(strings.TrimPrefix(text, bom)) {
		line = strings.TrimSpace(line)
		mark := fenceMark(line)
		switch {
		case fence != "" && mark == line && strings.HasPrefix(mark, fence):
			fence = ""
		case fence == "" && mark != "":
			fence = mark
		case fence == "" && strings.HasPrefix(line, "# "):
			title := strings.TrimSpace(line[2:])
			if cut := strings.TrimRight(title, "#"); strings.HasSuffix(cut, " ") { // a closing mark: # Title #
				title = cut
			}
			return strings.TrimSpace(strings.TrimPrefix(title, "Task:"))
		}
	}
	return ""
}

// fenceMark returns the three or more backticks or tildes that a line begins with.
func fenceMark(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}
