package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Standards are what a task's work is judged by, as it lies in the main checkout: lines by the name of where they stand.
// What can't be read now has no entry: the run comes to no verdict with it either.
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
		all[taskdir.CheckContext] = []string{whole(data)}
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

func whole(data []byte) string {
	sum := sha256.Sum256(data)
	return hashPrefix + hex.EncodeToString(sum[:])
}

// stating are the criteria of a prd.md. One that has none is one as a whole.
func stating(prd []byte) (lines []string) {
	for _, c := range statedIn(string(prd)) {
		line := text.OneLine(c.Text)
		if c.Verify != "" {
			line += ", proven by `" + text.OneLine(c.Verify) + "`"
		}
		if c.Should {
			line += " (should)"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return []string{whole(prd)}
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

func commandsOfProject(root string) (list []string, known bool) {
	files := config.Files{Root: root}
	for name, to := range map[string]*config.File{"config.yaml": &files.Config, "worktree.yaml": &files.Worktree} {
		data, err := durable.ReadBelow(root, ".trellis/"+name, durable.MaxDocument)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false
		}
		*to = config.File{Name: name, Data: data}
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
