package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// project is a well-known project with the settings of a user of Trellis.
type project struct {
	name   string
	folder string   // its files
	setup  string   // worktree.setup
	warm   []string // worktree.warm
	check  string   // verify
	change string   // shell command by which the implementing agent changes the source
}

// realProjects measures tasks in real projects, which are fetched with their own tools.
func (b *bench) realProjects(what string, fetch func() ([]project, error)) error {
	if b.only == "" {
		b.skip(what, "they take many minutes: make bench-real")
		return nil
	}
	list, err := fetch()
	if not, ok := errors.AsType[*unreachableError](err); ok {
		b.skip(not.what, not.err.Error())
		return nil
	}
	for _, p := range list {
		err = errors.Join(err, b.measureProject(p, b.sameBaseTasks, 1))
	}
	return err
}

// skip adds a row that says what is not measured and why.
func (b *bench) skip(what, why string) {
	b.rows = append(b.rows, row{name: what, skipReason: strings.Join(strings.Fields(why), " ")})
}

// measureProject measures each number of tasks with each program.
func (b *bench) measureProject(p project, numbers ...int) error {
	for _, n := range numbers {
		for _, program := range b.sides() {
			began := time.Now()
			what := fmt.Sprintf("%s%s, %s", program.name, p.name, tasksText(n))
			rows, err := b.deliveryRows(p, program, what, n)
			if err != nil && program.trellis == b.trellis {
				return fmt.Errorf("%s: %w", what, err)
			}
			if err != nil { // an earlier version doesn't know all settings
				b.skip(what, err.Error())
			}
			b.rows = append(b.rows, rows...)
			for _, r := range rows {
				b.logf("%s: %.1f %s", r.name, r.percentile(50), r.unit)
			}
			b.logf("%s took %.0f s, load %s", what, time.Since(began).Seconds(), load())
		}
	}
	return nil
}

func tasksText(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks, %d at once", n, parallelTasks)
}

// deliveryRows returns the rows for n tasks that begin at the same base and are run until they are in review.
func (b *bench) deliveryRows(p project, program side, what string, n int) (rows []row, err error) {
	s, log, err := b.projectSite(p, strings.NewReplacer(" ", "-", ":", "", ",", "").Replace(what))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(s.dir))) }()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("02-01-real-%d", i))
		err = errors.Join(err, s.writeTask(filepath.Join(s.tasks(), ids[i]), "ready"))
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	cmd := s.command(program.trellis, "watch", "--once")
	cmd.Env = append(cmd.Environ(), "GOCACHE="+filepath.Join(filepath.Dir(s.dir), "go-cache"), "GOFLAGS=")
	if err := succeed(cmd); err != nil {
		return nil, err
	}
	whole, processor := time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	for _, id := range ids {
		err = errors.Join(err, s.waitForDelivery(id))
	}
	took, logErr := readTimes(log)
	disk, duErr := diskUsage(filepath.Join(filepath.Dir(s.dir), "repo-worktrees"), filepath.Join(s.dir, ".trellis", ".runtime"))
	if err = errors.Join(err, logErr, duErr); err != nil {
		return nil, err
	}
	return took.rows(what, n, whole, processor, disk), nil
}

// projectSite creates a repository with the project's files. log is where bench/timed logs its commands.
func (b *bench) projectSite(p project, name string) (s *site, log string, err error) {
	if s, err = b.newSite(name, 1, 0); err != nil {
		return nil, "", err
	}
	log = filepath.Join(filepath.Dir(s.dir), "times.log")
	settings, err := json.MarshalIndent(b.settings(p, s.log, log), "", "  ")
	if err != nil {
		return nil, "", err
	}
	return s, log, errors.Join(s.run("cp", "-R", p.folder+"/.", s.dir), s.write(".trellis/config.yaml", string(settings)+"\n"), s.run("git", "add", "-A"), s.run("git", "commit", "-q", "-m", "the project"))
}

// settings returns the settings for config.yaml as JSON, which is valid YAML too.
func (b *bench) settings(p project, starts, log string) map[string]any {
	timed := func(kind, line string) string { return fmt.Sprintf(`"%s" "%s" %s '%s'`, b.timed, log, kind, line) }
	agent := fmt.Sprintf(`if test "$TRELLIS_ROLE" = implement; then %s; fi; exec "$0" "$1"`, p.change)
	all := map[string]any{
		"agents": map[string]any{"default": "changing", "commands": map[string]any{"changing": map[string]any{"command": []string{"sh", "-c", agent, b.instant, starts}}}},
		"limits": map[string]int{"attempts": 1, "rounds": 1, "parallel": parallelTasks},
		"verify": []string{timed("check", p.check)},
	}
	worktree := map[string][]string{}
	if p.setup != "" {
		worktree["setup"] = []string{timed("setup", p.setup)}
	}
	if len(p.warm) > 0 { // an earlier version doesn't know this setting
		worktree["warm"] = p.warm
	}
	all["worktree"] = worktree
	return all
}

// diskUsage returns how many MB folders take on disk; a file with several names counts once.
func diskUsage(folders ...string) (sum float64, err error) {
	out, err := exec.Command("du", append([]string{"-sk"}, folders...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("looking at what %v take: %w", folders, err)
	}
	for line := range strings.Lines(string(out)) {
		kilobytes, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
		if err != nil {
			return 0, err
		}
		sum += kilobytes / 1024
	}
	return sum, nil
}
