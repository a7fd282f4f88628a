package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Standards are what decides whether a task's work is accepted, read from the main checkout: lines by the name of where they
// stand. A file that can't be read has no entry: no run is judged by it.
type Standards map[string][]string

// byCommands names the commands that decide, wherever they stand.
const byCommands = "verify"

// StandardsOf reads those of the task in dir.
func StandardsOf(s taskdir.Store, dir string) Standards {
	all := Standards{}
	if prd, err := taskdir.ReadFile(dir, taskdir.PRD); err == nil {
		all[taskdir.PRD] = stating(prd)
	}
	if b, err := LoadPlan(s, dir); err == nil {
		all[taskdir.Plan] = nil
		if b != nil {
			all[taskdir.Plan] = []string{hashPrefix + b.Hash}
		}
	}
	switch data, err := taskdir.ReadFile(dir, taskdir.CheckContext); {
	case err == nil:
		all[taskdir.CheckContext] = []string{PlanSum(data)}
	case errors.Is(err, fs.ErrNotExist):
		all[taskdir.CheckContext] = nil
	}
	if t, err := s.Load(dir); err == nil {
		if lines, known := commandsOf(s.Root, t); known {
			all[byCommands] = lines
		}
	}
	return all
}

const hashPrefix = "sha256:"

// stating are the criteria of a prd.md. One that has none is one as a whole.
func stating(prd []byte) (lines []string) {
	for _, c := range statedIn(string(prd)) {
		line := text.OneLine(c.Text)
		if c.Verify != "" {
			line += ", proven by `" + text.OneLine(c.Verify) + "`"
		}
		if c.Level == "should" {
			line += " (should)"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return []string{PlanSum(prd)}
	}
	return lines
}

// commandsOf are those that would be claimed now, but for a plan's, which stand for themselves.
func commandsOf(root string, t *taskdir.Task) (lines []string, known bool) {
	list, source := t.Pipeline.Verify, fromTask
	if len(list) == 0 {
		if list, known = commandsOfProject(root); !known {
			return nil, false
		}
		source = fromConfig
	}
	if len(list) == 0 {
		if data, err := taskdir.ReadFile(t.Dir, taskdir.Research); err == nil {
			list, source = research.Parse(data).Commands, fromResearch
		}
	}
	for _, command := range list {
		lines = append(lines, "`"+text.OneLine(command)+"` of "+source)
	}
	return lines, true
}

// settingsOfProject are the files that say the settings of a project, as they are now.
func settingsOfProject(root string) (files config.Files, known bool) {
	files.Root = root
	for name, to := range map[string]*config.File{"config.yaml": &files.Config, "worktree.yaml": &files.Worktree} {
		data, err := durable.ReadBelow(root, ".trellis/"+name, durable.MaxDocument)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return files, false
		}
		*to = config.File{Name: ".trellis/" + name, Data: data}
	}
	return files, true
}

func commandsOfProject(root string) (list []string, known bool) {
	files, known := settingsOfProject(root)
	if !known {
		return nil, false
	}
	c, problems := config.Load(files)
	for _, p := range problems {
		if !p.Warning {
			return nil, false
		}
	}
	return c.Verify, true
}

// differ are the names of what is not the same in both, of what both could read.
func (s Standards) differ(now Standards) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if is, known := now[name]; known && !widened(s[name], is) {
			names = append(names, name)
		}
	}
	return names
}

// widened reports whether all that was is still there: a criterion or a command more weakens nothing. What is told by a hash, or
// stands where nothing did, may say anything.
func widened(was, is []string) bool {
	more := without(is, was)
	return len(without(was, is)) == 0 && (len(more) == 0 || len(was) > 0 && !hashed(is))
}

// without are the lines that others do not have.
func without(lines, others []string) (rest []string) {
	for _, l := range lines {
		if !slices.Contains(others, l) {
			rest = append(rest, l)
		}
	}
	return rest
}

// tell says in words how one differs from what it was.
func (s Standards) tell(name string, now Standards) string {
	if hashed(s[name]) || hashed(now[name]) {
		return name
	}
	var said []string
	for _, l := range few(without(s[name], now[name])) {
		said = append(said, "- "+l)
	}
	for _, l := range few(without(now[name], s[name])) {
		said = append(said, "+ "+l)
	}
	return fmt.Sprintf("%s: %s", name, strings.Join(said, "; "))
}

// hashed reports whether lines stand for a file as a whole.
func hashed(lines []string) bool {
	return len(lines) == 1 && strings.HasPrefix(lines[0], hashPrefix)
}

// Unconfirmed is what was changed of a task's standards while its agents were at work, until people agree to it.
type Unconfirmed struct {
	Was  Standards `json:"was"`  // what counts, of what was changed
	Said []string  `json:"said"` // decisions that were written down when it was seen: none of them is about it
}

// writtenDown are decisions as they can be told apart, bound to a plan or not yet.
func writtenDown(list []proof.Approval) (keys []string) {
	for _, a := range list {
		keys = append(keys, fmt.Sprintf("%q %q %q %q %d", a.Step, a.Decision, a.By, a.Reason, a.At.UnixNano()))
	}
	return keys
}

// since are the decisions of list besides those that were written down before, each as often as it was.
func since(list []proof.Approval, before []string) (later []proof.Approval) {
	before = slices.Clone(before)
	for i, key := range writtenDown(list) {
		if at := slices.Index(before, key); at >= 0 {
			before = slices.Delete(before, at, at+1)
			continue
		}
		later = append(later, list[i])
	}
	return later
}

// unconfirmedFile keeps it in run/, from one run to the next.
const (
	unconfirmedFile = "unconfirmed.json"
	maxStandards    = 16 << 20
)

// ReadUnconfirmed is that of the task in dir, with nothing in it when there is none.
func ReadUnconfirmed(dir string) (u Unconfirmed, err error) {
	err = readRecord(dir, unconfirmedFile, &u)
	return u, err
}

// readRecord reads what is kept in run/ of the task in dir of its standards, nothing when there is no such file.
func readRecord(dir, name string, to any) error {
	data, err := durable.ReadBelow(filepath.Join(dir, taskdir.Run), name, maxStandards)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("reading %s, which says what was changed of what judges the work: %w", name, err)
	}
	return nil
}

// Changes say in words how what counts differs from what the task's directory says now.
func (u Unconfirmed) Changes(s taskdir.Store, dir string) (said []string) {
	if len(u.Was) == 0 {
		return nil
	}
	now := StandardsOf(s, dir)
	for _, name := range u.Was.differ(now) {
		said = append(said, u.Was.tell(name, now))
	}
	return said
}

// AskedAbout says what people are asked when that was changed while agents were at work.
func AskedAbout(changes []string) string {
	return "approval of what was changed while an agent was at work (" + strings.Join(changes, "; ") + ")"
}

// edit is what a command of Trellis that a person typed made of one of a task's standards.
type edit struct {
	Name string   `json:"name"`
	From []string `json:"from"`
	To   []string `json:"to"`
}

type edits []edit

// editsFile keeps the last of them in run/.
const (
	editsFile = "edits.json"
	mostEdits = 100
)

// Edited has a run of the task in dir, if there is any, take in what a person's command does to what judges its work, also
// while an agent is at work. It is called under the task's write lock.
func Edited(s taskdir.Store, dir string, do func() error) error {
	before := StandardsOf(s, dir)
	if err := do(); err != nil {
		return err
	}
	now := StandardsOf(s, dir)
	var list edits
	if err := readRecord(dir, editsFile, &list); err != nil {
		return err
	}
	changed := before.differ(now)
	for _, name := range changed {
		list = append(list, edit{name, before[name], now[name]})
	}
	if _, err := os.Stat(filepath.Join(dir, taskdir.Run)); len(changed) == 0 || err != nil {
		return nil // no agent was ever at work
	}
	data, err := json.Marshal(list[max(0, len(list)-mostEdits):])
	if err != nil {
		return fmt.Errorf("encoding what was edited: %w", err)
	}
	return s.Disk.WriteFile(filepath.Join(dir, taskdir.Run, editsFile), data, 0o600)
}

// lead reports whether nothing but these edits, in their order, leads from one state to another.
func (e edits) lead(name string, from, to []string) bool {
	for _, one := range e {
		if one.Name == name && slices.Equal(one.From, from) {
			from = one.To
		}
	}
	return slices.Equal(from, to)
}
