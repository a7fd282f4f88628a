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

// Standards decide whether a task's work is accepted, as read from the main checkout: lines by the name of the file or source that
// has them. A file that can't be read has no entry: no run is judged by it.
type Standards map[string][]string

// commandsEntry is the name of the deciding commands, whatever their source.
const commandsEntry = "verify"

// StandardsOf reads the standards of the task in dir.
func StandardsOf(s taskdir.Store, dir string) Standards {
	all := Standards{}
	if prd, err := taskdir.ReadFile(dir, taskdir.PRD); err == nil {
		all[taskdir.PRD] = criteriaLines(prd)
	}
	if b, err := LoadPlan(s, dir); err == nil {
		all[taskdir.Plan] = nil
		if b != nil {
			all[taskdir.Plan] = []string{hashPrefix + b.Hash}
		}
	}
	switch data, err := taskdir.ReadFile(dir, taskdir.CheckContext); {
	case err == nil:
		all[taskdir.CheckContext] = []string{FileDigest(data)}
	case errors.Is(err, fs.ErrNotExist):
		all[taskdir.CheckContext] = nil
	}
	if t, err := s.Load(dir); err == nil {
		if lines, known := commandsOf(s.Root, t); known {
			all[commandsEntry] = lines
		}
	}
	return all
}

const hashPrefix = "sha256:"

// criteriaLines returns the criteria of a prd.md. If it has none, the file as a whole is one, by its hash.
func criteriaLines(prd []byte) (lines []string) {
	for _, c := range statedCriteria(string(prd)) {
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
		return []string{FileDigest(prd)}
	}
	return lines
}

// commandsOf returns the commands that would be claimed now, except those of a plan, which has its own entry.
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

// settingsOfProject returns the files with the current settings of a project, known as false if one can't be read.
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

// weakenedEntries returns the names of the entries, of those that both sides have, whose change may weaken the standards.
func (s Standards) weakenedEntries(now Standards) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if is, known := now[name]; known && !onlyAdds(s[name], is) {
			names = append(names, name)
		}
	}
	return names
}

// onlyAdds reports whether is still has all that was had: one more criterion or command weakens nothing. A hash, or an entry that
// was empty before, may say anything.
func onlyAdds(was, is []string) bool {
	more := linesNotIn(is, was)
	return len(linesNotIn(was, is)) == 0 && (len(more) == 0 || len(was) > 0 && !isFileHash(is))
}

// linesNotIn returns the lines that others does not have.
func linesNotIn(lines, others []string) (rest []string) {
	for _, l := range lines {
		if !slices.Contains(others, l) {
			rest = append(rest, l)
		}
	}
	return rest
}

// describeChange describes how an entry differs in now.
func (s Standards) describeChange(name string, now Standards) string {
	if isFileHash(s[name]) || isFileHash(now[name]) {
		return name
	}
	var lines []string
	for _, l := range shortList(linesNotIn(s[name], now[name])) {
		lines = append(lines, "- "+l)
	}
	for _, l := range shortList(linesNotIn(now[name], s[name])) {
		lines = append(lines, "+ "+l)
	}
	return fmt.Sprintf("%s: %s", name, strings.Join(lines, "; "))
}

// isFileHash reports whether lines are the hash of a whole file.
func isFileHash(lines []string) bool {
	return len(lines) == 1 && strings.HasPrefix(lines[0], hashPrefix)
}

// Unconfirmed is what was changed of a task's standards while its agents were at work, until people approve it.
type Unconfirmed struct {
	Was  Standards `json:"was"`  // the former entries, which count
	Said []string  `json:"said"` // decisions that existed when the change was found: none of them is about it
}

// decisionKeys returns a key for each decision, which is the same before and after the decision is bound to a plan.
func decisionKeys(list []proof.Approval) (keys []string) {
	for _, a := range list {
		keys = append(keys, fmt.Sprintf("%q %q %q %q %d", a.Step, a.Decision, a.By, a.Reason, a.At.UnixNano()))
	}
	return keys
}

// decisionsSince returns the decisions of list that are not among those before, of equal ones as many as were added.
func decisionsSince(list []proof.Approval, before []string) (later []proof.Approval) {
	before = slices.Clone(before)
	for i, key := range decisionKeys(list) {
		if at := slices.Index(before, key); at >= 0 {
			before = slices.Delete(before, at, at+1)
			continue
		}
		later = append(later, list[i])
	}
	return later
}

// unconfirmedFile keeps Unconfirmed in run/, from one run to the next.
const (
	unconfirmedFile = "unconfirmed.json"
	maxStandards    = 16 << 20
)

// ReadUnconfirmed reads the Unconfirmed of the task in dir, empty if there is none.
func ReadUnconfirmed(dir string) (u Unconfirmed, err error) {
	err = readRecord(dir, unconfirmedFile, &u)
	return u, err
}

// readRecord decodes a file on the standards, in run/ of the task in dir. If the file does not exist, to stays as it is.
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

// Changes describes how the standards that count differ from those in the task's directory now.
func (u Unconfirmed) Changes(s taskdir.Store, dir string) (changes []string) {
	if len(u.Was) == 0 {
		return nil
	}
	now := StandardsOf(s, dir)
	for _, name := range u.Was.weakenedEntries(now) {
		changes = append(changes, u.Was.describeChange(name, now))
	}
	return changes
}

// ApprovalSubject says what people have to approve after these changes were made while agents were at work.
func ApprovalSubject(changes []string) string {
	return "approval of what was changed while an agent was at work (" + strings.Join(changes, "; ") + ")"
}

// edit is the change of one of a task's standards by a Trellis command that a person ran.
type edit struct {
	Name string   `json:"name"`
	From []string `json:"from"`
	To   []string `json:"to"`
}

type edits []edit

// editsFile keeps the last edits in run/.
const (
	editsFile = "edits.json"
	maxEdits  = 100
)

// DoRecorded runs do, the command of a person, and records what it changes in the standards of the task in dir. A run of the task
// accepts such changes, even while an agent is at work. RecordEdit is called under the task's write lock.
func DoRecorded(s taskdir.Store, dir string, do func() error) error {
	before := StandardsOf(s, dir)
	if err := do(); err != nil {
		return err
	}
	now := StandardsOf(s, dir)
	var list edits
	if err := readRecord(dir, editsFile, &list); err != nil {
		return err
	}
	changed := before.weakenedEntries(now)
	for _, name := range changed {
		list = append(list, edit{name, before[name], now[name]})
	}
	if _, err := os.Stat(filepath.Join(dir, taskdir.Run)); len(changed) == 0 || err != nil {
		return nil // no agent has been at work
	}
	data, err := json.Marshal(list[max(0, len(list)-maxEdits):])
	if err != nil {
		return fmt.Errorf("encoding what was edited: %w", err)
	}
	return s.Disk.WriteFile(filepath.Join(dir, taskdir.Run, editsFile), data, 0o600)
}

// accountFor reports whether these edits, in their order, and nothing else lead from one state to another.
func (e edits) accountFor(name string, from, to []string) bool {
	for _, one := range e {
		if one.Name == name && slices.Equal(one.From, from) {
			from = one.To
		}
	}
	return slices.Equal(from, to)
}
