package main

import (
	"bytes"
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

// site is a repository with .trellis, whose agents are instant.
type site struct {
	b   *bench
	dir string // main checkout
	log string // log of the times at which agents were started
	n   int    // number of tasks and branches so far

	filled int // number of tasks that can't be run
}

const config = `agents: {default: instant, commands: {instant: {command: [%q, %q]}}}
limits: {attempts: 1, rounds: 1}
`

// newSite creates a repository with this many committed source files, and tasks that can't be run.
func (b *bench) newSite(name string, files, tasks int) (*site, error) {
	s := &site{b: b, dir: filepath.Join(b.dir, name, "repo"), log: filepath.Join(b.dir, name, "starts.log")}
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("line of file %d\n", i), 200)
		if err := s.write(fmt.Sprintf("src/%03d/file-%d.txt", i/20, i), text); err != nil {
			return nil, err
		}
	}
	steps := []func() error{
		func() error { return s.run("git", "init", "-q", "-b", "main") },
		func() error { return s.run("git", "config", "gc.auto", "0") }, // gc would disturb the measurement
		func() error { return s.run(b.trellis, "init") },
		func() error { return s.write(".trellis/config.yaml", fmt.Sprintf(config, b.instant, s.log)) },
		func() error { return s.run("git", "add", "-A") },
		func() error { return s.run("git", "commit", "-q", "-m", "first") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("making a repository: %w", err)
		}
	}
	return s, s.fill(0, tasks)
}

func (s *site) write(name, text string) error {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// command returns a program to be run in the main checkout, with a clean environment: no settings of the user, no sign-in of an
// agent.
func (s *site) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.dir, s.b.env
	return cmd
}

// run runs a program, which has to succeed.
func (s *site) run(name string, args ...string) error { return succeed(s.command(name, args...)) }

func succeed(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", strings.Join(cmd.Args, " "), err, &said)
	}
	return nil
}

func (s *site) tasks() string { return filepath.Join(s.dir, ".trellis", "tasks") }

// statuses are those of tasks that can't be run.
var statuses = []string{"completed", "review", "planning", "cancelled"}

// fill adds task directories that can't be run, with numbers from from to below to.
func (s *site) fill(from, to int) error {
	for i := max(from, s.filled); i < to; i++ {
		if err := s.writeTask(s.other(i), statuses[i%len(statuses)]); err != nil {
			return err
		}
	}
	s.filled = max(s.filled, to)
	return nil
}

func (s *site) other(i int) string { return filepath.Join(s.tasks(), fmt.Sprintf("01-01-other-%d", i)) }

// changeStatus changes the status of the tasks that fill created with status made.
func (s *site) changeStatus(made, now string) error {
	for i := range s.filled {
		if statuses[i%len(statuses)] != made {
			continue
		}
		if err := s.writeTask(s.other(i), now); err != nil {
			return err
		}
	}
	return nil
}

// prepareTask creates a ready task outside of the folder of tasks, and returns its id and path. It adds a commit to the branch at
// which the work begins, so that what Trellis has cached about commits doesn't help.
func (s *site) prepareTask() (id, path string, err error) {
	s.n++
	id = fmt.Sprintf("02-01-sample-%d", s.n)
	path = filepath.Join(filepath.Dir(s.dir), "made", id)
	return id, path, errors.Join(s.writeTask(path, "ready"), s.run("git", "commit", "-q", "--allow-empty", "-m", "before "+id))
}

// addTask creates a ready task in the folder of tasks.
func (s *site) addTask() (id string, err error) {
	id, path, err := s.prepareTask()
	if err == nil {
		err = os.Rename(path, filepath.Join(s.tasks(), id))
	}
	return id, err
}

// writeTask writes a complete task directory.
func (s *site) writeTask(dir, status string) error {
	id := filepath.Base(dir)
	name := id[len("01-01-"):]
	record, err := json.MarshalIndent(map[string]any{
		"id": name, "name": name, "title": "Do " + name, "description": "A task of the bench.", "status": status, "dev_type": "backend",
		"scope": nil, "package": nil, "priority": "P2", "creator": "ada", "assignee": "ada", "createdAt": "2026-01-01", "completedAt": nil,
		"branch": "feature/" + name, "base_branch": nil, "worktree_path": nil, "commit": nil, "pr_url": nil, "subtasks": []string{}, "children": []string{},
		"parent": nil, "relatedFiles": []string{}, "notes": "", "meta": map[string]any{},
	}, "", "  ")
	if err != nil {
		return err
	}
	row := `{"file": "src/000/file-0.txt", "reason": "what is to change"}` + "\n"
	for file, text := range map[string]string{
		"task.json": string(record) + "\n", "implement.jsonl": row, "check.jsonl": row,
		"prd.md": "# Do " + name + "\n\nA task of the bench.\n\n## Acceptance Criteria\n\n- [ ] work.txt names the task\n",
	} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	return err
}

// taskState is the part of task.json that says how a task ended.
type taskState struct {
	Status   string
	Pipeline struct{ Failure struct{ Code, Detail string } }
}

// waitForDelivery waits for the end of a task, which has to be a delivered commit.
func (s *site) waitForDelivery(id string) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var t taskState
		data, err := os.ReadFile(filepath.Join(s.tasks(), id, "task.json"))
		if err == nil {
			err = json.Unmarshal(data, &t)
		}
		switch {
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", id, err)
		case t.Status == "review":
			return nil
		case t.Status != "ready" && t.Status != "in_progress":
			return fmt.Errorf("%s ended as %s: %s: %s", id, t.Status, t.Pipeline.Failure.Code, t.Pipeline.Failure.Detail)
		}
	}
	return fmt.Errorf("%s did not end within a minute", id)
}

// agentStartTime returns when the first agent of a task was started.
func (s *site) agentStartTime(id string) (time.Time, error) {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "implement" && f[1] == id {
			ns, err := strconv.ParseInt(f[2], 10, 64)
			return time.Unix(0, ns), err
		}
	}
	return time.Time{}, fmt.Errorf("no agent of %s was started", id)
}
