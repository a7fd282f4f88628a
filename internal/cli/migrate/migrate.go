// Package migrate finds what an earlier Trellis left in a repository, and says what becomes of it.
package migrate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Earlier reports what an earlier Trellis left in the project, and what becomes of it. It changes nothing.
type Earlier struct {
	Console *command.Console
	Project *app.Project
	Ignore  []byte                     // the .gitignore that a fresh .trellis has
	Checks  func(root string) []string // returns the commands that seem to check a project
}

// unusedFiles are files of earlier versions below .trellis that this version does not use.
var unusedFiles = []string{".version", ".template-hashes.json", "scripts", "workspace"}

// RemoveExisting removes from the files of a fresh .trellis what the project has already.
func (m Earlier) RemoveExisting(files map[string][]byte) error {
	pages, err := specs.List(m.Project.Root)
	if err != nil {
		return err
	}
	for name := range files {
		if len(pages) > 0 && strings.HasPrefix(name, "spec/") {
			delete(files, name)
		}
	}
	if len(m.worktreeSettings().Verify) > 0 { // a list in config.yaml would win, even an empty one
		text := string(files["config.yaml"])
		before, rest, found := strings.Cut(text, "\nverify:")
		if !found {
			return nil
		}
		lines := strings.SplitAfter(rest, "\n")[1:]
		for len(lines) > 0 && strings.HasPrefix(lines[0], "  - ") {
			lines = lines[1:]
		}
		files["config.yaml"] = []byte(before + "\n# .trellis/worktree.yaml names them; a list here takes its place.\n#verify: []\n" + strings.Join(lines, ""))
	}
	return nil
}

// worktreeSettings returns the settings of worktree.yaml.
func (m Earlier) worktreeSettings() *config.Config {
	files := m.Project.Settings.Files()
	files.Config = config.File{}
	c, _ := config.Load(files) // its errors are reported with the others
	return c
}

// Tell prints what was found: tasks, settings, agents, and files that are not read.
func (m Earlier) Tell() error {
	live, err := m.Project.Store.List()
	if err != nil {
		return err
	}
	archived, err := m.Project.Store.ListArchived()
	if err != nil {
		return err
	}
	m.sayTasks(live, archived)
	m.saySettings()
	if err := m.sayAgents(); err != nil {
		return err
	}
	m.sayUnread()
	m.sayMissingIgnores()
	return nil
}

func (m Earlier) sayTasks(live, archived []taskdir.Entry) {
	live = slices.DeleteFunc(live, func(e taskdir.Entry) bool { return e.Planning })
	byStatus, broken, old := map[trellis.Status]int{}, 0, 0
	for _, e := range slices.Concat(live, archived) {
		if e.Err != nil {
			broken++
			continue
		}
		byStatus[e.Task.Status]++
		if strings.Contains(string(e.Task.Raw), `"current_phase"`) || strings.Contains(string(e.Task.Raw), `"next_action"`) {
			old++
		}
	}
	if len(live)+len(archived) == 0 {
		return
	}
	var parts []string
	for _, s := range append(slices.Clone(trellis.Statuses), unknownStatuses(byStatus)...) {
		if n := byStatus[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	m.Console.Say("found %s, %d of them archived: %s", text.Count(len(live)+len(archived), "task"), len(archived), strings.Join(parts, ", "))
	if old > 0 {
		m.Console.Say("  %d with current_phase or next_action of an earlier Trellis: kept in the file, not read", old)
	}
	if broken > 0 {
		m.Console.Say("  %d whose task.json can't be read; next: trellis doctor --repair", broken)
	}
	m.sayNextSteps(live, byStatus)
}

// unknownStatuses returns the statuses that this version does not know.
func unknownStatuses(byStatus map[trellis.Status]int) (list []trellis.Status) {
	for s := range byStatus {
		if !slices.Contains(trellis.Statuses, s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// sayNextSteps prints what to do about tasks that were begun, but not by a run of this Trellis.
func (m Earlier) sayNextSteps(live []taskdir.Entry, byStatus map[trellis.Status]int) {
	const most = 5
	var begun []string
	for _, e := range live {
		if e.Err == nil && e.Task.Status == trellis.InProgress {
			if _, err := os.Lstat(filepath.Join(e.Dir, taskdir.Journal)); err != nil {
				begun = append(begun, e.ID)
			}
		}
	}
	if len(begun) > 0 {
		m.Console.Say("  in progress, but not by a run of this Trellis: `trellis retry TASK` runs one from its files, `trellis task archive TASK` puts it away:")
	}
	for i, id := range begun {
		if i == most {
			m.Console.Say("    and %d more; next: trellis list --status in_progress", len(begun)-most)
			break
		}
		m.Console.Say("    trellis retry %s", trellis.ShellWord(id))
	}
	if byStatus[trellis.Planning] > 0 {
		m.Console.Say("  in planning: `trellis validate --all` says what each one lacks, `trellis start TASK` begins one")
	}
	if list := unknownStatuses(byStatus); len(list) > 0 {
		m.Console.Say("  no status here: %s; the task is left alone until its task.json has another", list[0])
	}
}

// saySettings prints what worktree.yaml sets, and what may be missing. Errors in settings are left to doctor, which init runs last.
func (m Earlier) saySettings() {
	merged, _ := m.Project.Config()
	if _, err := os.Stat(filepath.Join(m.Project.Root, ".trellis", "worktree.yaml")); err == nil {
		old := m.worktreeSettings()
		usual, _ := config.Load(config.Files{Root: m.Project.Root})
		var taken []string
		add := func(key string, differs, same bool, what string) {
			if differs && same {
				taken = append(taken, key+" "+what)
			}
		}
		add("worktree.dir", old.Worktree.Dir != usual.Worktree.Dir, old.Worktree.Dir == merged.Worktree.Dir, old.Worktree.Dir)
		for _, l := range []struct {
			key      string
			old, now []string
		}{{"worktree.copy", old.Worktree.Copy, merged.Worktree.Copy}, {"worktree.setup", old.Worktree.Setup, merged.Worktree.Setup}, {"verify", old.Verify, merged.Verify}} {
			add(l.key, len(l.old) > 0, slices.Equal(l.old, l.now), fmt.Sprintf("%q", l.old))
		}
		m.Console.Say("worktree.yaml applies where config.yaml has no setting: %s", cmp.Or(strings.Join(taken, ", "), "nothing in it applies"))
	}
	if len(merged.Verify) == 0 {
		if found := m.Checks(m.Project.Root); len(found) > 0 {
			m.Console.Say("config.yaml names no check commands; this project seems to have: verify: [%s]", strings.Join(found, ", "))
		}
	}
}

// sayAgents prints which descriptions of agents are used, and which are not.
func (m Earlier) sayAgents() error {
	var used, unused []string
	for _, path := range durable.Glob(filepath.Join(m.Project.Root, ".trellis", "agents"), "*.md") {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		if !slices.Contains(trellis.Roles, trellis.Role(name)) {
			unused = append(unused, m.Project.Store.Rel(path))
			continue
		}
		data, err := durable.ReadBelow(m.Project.Root, m.Project.Store.Rel(path), durable.MaxDocument)
		if err != nil {
			return fmt.Errorf("reading a role: %w", err)
		}
		if _, problem := specs.ParseRole(m.Project.Store.Rel(path), trellis.Role(name), data, nil); problem != nil {
			m.Console.Say("%v", problem)
		}
		used = append(used, name)
	}
	for _, folder := range []string{".claude/agents", ".codex/agents", ".opencode/agents", ".opencode/agent", ".cursor/agents"} {
		for _, path := range durable.Glob(filepath.Join(m.Project.Root, filepath.FromSlash(folder)), "*.md") {
			if roleOf(path) != "" {
				unused = append(unused, m.Project.Store.Rel(path))
			}
		}
	}
	if len(used) > 0 {
		m.Console.Say("used: .trellis/agents/, in the place of the built-in words for %s; of its front matter description, agent, model and permission", strings.Join(used, ", "))
	}
	if len(unused) == 0 {
		return nil
	}
	m.Console.Say("not read: %s", strings.Join(unused, ", "))
	for _, path := range unused {
		if role := roleOf(path); slices.Contains(trellis.Roles, trellis.Role(role)) && !slices.Contains(used, role) {
			m.Console.Say("  to have your words for a role, put them into .trellis/agents, as in: mkdir -p .trellis/agents && cp %s .trellis/agents/%s.md", trellis.ShellWord(path), role)
			break
		}
	}
	return nil
}

// roleOf returns the role that a file of an earlier Trellis describes, or "" for other files.
func roleOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".md")
	role := strings.TrimPrefix(name, "trellis-")
	if role != name || slices.Contains([]string{"implement", "check", "debug", "plan", "dispatch", "research"}, role) {
		return role
	}
	return ""
}

// sayUnread prints which other files of an earlier Trellis are not read.
func (m Earlier) sayUnread() {
	var there []string
	for _, name := range unusedFiles {
		if _, err := os.Lstat(filepath.Join(m.Project.Root, ".trellis", name)); err == nil {
			there = append(there, name)
		}
	}
	if len(there) > 0 {
		m.Console.Say("left as they are, not read: %s in .trellis", strings.Join(there, ", "))
	}
	if data, err := durable.ReadBelow(m.Project.Root, ".trellis/.current-task", durable.MaxDocument); err == nil && strings.TrimSpace(string(data)) != "" {
		m.Console.Say(".current-task names %s: there is no current task any more, each command names its task", strings.TrimSpace(string(data)))
	}
}

// sayMissingIgnores prints the lines that an existing .gitignore lacks.
func (m Earlier) sayMissingIgnores() {
	have, err := durable.ReadBelow(m.Project.Root, ".trellis/.gitignore", durable.MaxDocument)
	if err != nil {
		return
	}
	var missing []string
	lines := strings.Fields(string(have))
	for line := range strings.Lines(string(m.Ignore)) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && !slices.Contains(lines, line) && !slices.Contains(lines, strings.TrimSuffix(line, "/")) {
			missing = append(missing, line)
		}
	}
	if len(missing) > 0 {
		m.Console.Say("add to .trellis/.gitignore, which is yours, each on a line of its own: %s", strings.Join(missing, ", "))
	}
}
