package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// sighting is a task as it was when the remote was last asked.
type sighting struct {
	Task    string         `json:"task"`
	Commit  string         `json:"commit"`
	Seen    time.Time      `json:"seen"`              // when this clone first saw that commit, by its own clock
	Machine string         `json:"machine,omitempty"` // machine that has the task, "" for none
	Host    string         `json:"host,omitempty"`    // name of that machine
	Since   time.Time      `json:"since,omitzero"`    // when that machine took it, by its own clock
	Worker  string         `json:"worker,omitempty"`  // machine that worked on the task last
	Status  trellis.Status `json:"status,omitempty"`

	asked time.Time // when the remote was asked last
}

// sightings are those of all tasks. The processes of a clone share them in a file.
type sightings struct {
	path         string
	remote       string
	fromSettings bool // see [Options]
	silence      time.Duration
	disk         *durable.Disk
	now          func() time.Time

	mu       sync.Mutex
	readAt   time.Time // modification time of the file when it was read
	asked    time.Time // when the remote was asked last
	tasks    map[string]sighting
	spending taskref.Spending // of all machines, as far as was heard
}

type sightingsText struct {
	Remote  string        `json:"remote"`
	Set     bool          `json:"set,omitempty"` // see [Options]
	Silence time.Duration `json:"silence"`       // after which a machine has lost its tasks
	Asked   time.Time     `json:"asked,omitzero"`
	Tasks   []sighting    `json:"tasks"`

	Spending taskref.Spending `json:"spending,omitempty"`
}

// SightingsFile returns the path of the file in which a clone keeps what it heard about the tasks of the team.
func SightingsFile(root string) string {
	return filepath.Join(root, ".trellis", ".runtime", "shared", "tasks.json")
}

// LastRemote returns the remote whose tasks a clone shared last, "" if it shared none, and whether only its settings named that.
func LastRemote(root string) (remote string, set bool) {
	text, err := readSightings(SightingsFile(root))
	if err != nil {
		return "", false
	}
	return text.Remote, text.Set
}

// Sightings is what a clone heard about the tasks of the team. Its methods ask nobody.
type Sightings struct {
	root    string
	machine string
	heard   sightings
}

// NewSightings returns what was heard by the clone at root, whose ID is machine.
func NewSightings(root, machine string, now func() time.Time) *Sightings {
	return &Sightings{root: root, machine: machine, heard: sightings{path: SightingsFile(root), now: now}}
}

// Elsewhere returns which other machine has the task of a directory, nil if none has.
func (k *Sightings) Elsewhere(dir string) *runner.OtherMachineError {
	s, ok := k.heard.find(filepath.Base(dir))
	if !ok || filepath.Dir(dir) != filepath.Join(k.root, ".trellis", "tasks") || !s.isElsewhere(k.machine, k.heard.silence) {
		return nil
	}
	return s.elsewhereError()
}

// IsShared reports whether the task of a directory is on the remote, where others find it.
func (k *Sightings) IsShared(dir string) bool {
	_, ok := k.heard.find(filepath.Base(dir))
	return ok && filepath.Dir(dir) == filepath.Join(k.root, ".trellis", "tasks")
}

// isElsewhere reports whether another machine has the task, as far as was heard.
func (s sighting) isElsewhere(machine string, silence time.Duration) bool {
	return s.Machine != "" && s.Machine != machine && !s.lapsed(silence)
}

// lapsed reports whether nothing was heard for too long of the machine that has the task. It uses this machine's clock alone: what
// counts is how long the state had not changed when the remote was last asked. A clone that does not ask hears nothing of live machines.
func (s sighting) lapsed(silence time.Duration) bool { return s.asked.Sub(s.Seen) > silence }

func (s sighting) elsewhereError() *runner.OtherMachineError {
	return &runner.OtherMachineError{Task: s.Task, Host: s.Host, Since: s.Since}
}

func (s *sightings) find(task string) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	one, ok := s.tasks[task]
	one.asked = s.asked
	return one, ok
}

// load reads the file again if another process wrote it. What can't be read is fetched again.
func (s *sightings) load() {
	info, err := os.Stat(s.path)
	if err != nil || s.tasks != nil && info.ModTime().Equal(s.readAt) {
		return
	}
	text, err := readSightings(s.path)
	if err != nil || s.remote != "" && text.Remote != s.remote {
		return
	}
	s.fromSettings = s.fromSettings && text.Set // a remote that a person named stays named
	if s.remote == "" {
		s.silence = text.Silence
	}
	s.tasks, s.readAt, s.asked = map[string]sighting{}, info.ModTime(), text.Asked
	for _, one := range text.Tasks {
		s.tasks[one.Task] = one
	}
	s.addSpending(text.Spending)
}

// addSpending adds what agents used.
func (s *sightings) addSpending(heard taskref.Spending) {
	if s.spending == nil {
		s.spending = taskref.Spending{}
	}
	s.spending.Learn(s.recentSpending(heard))
}

// recentSpending returns the part of a table from yesterday on, without days that have not begun anywhere yet.
func (s *sightings) recentSpending(table taskref.Spending) taskref.Spending {
	return table.Between(day(s.now().AddDate(0, 0, -1)), day(s.now().AddDate(0, 0, 1)))
}

// spent returns what agents of all machines used since yesterday, as far as was heard.
func (s *sightings) spent() taskref.Spending {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	return s.recentSpending(s.spending)
}

// recordAll records the current states of all tasks: any other task is no longer on the remote.
func (s *sightings) recordAll(states []taskref.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	s.asked = s.now()
	maps.DeleteFunc(s.tasks, func(task string, _ sighting) bool { return stateOf(states, task).Commit == "" })
	s.noteStates(states)
	return s.write()
}

// record records the current states of some tasks, and drops those that are gone.
func (s *sightings) record(states []taskref.State, gone ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	for _, task := range gone {
		delete(s.tasks, task)
	}
	s.noteStates(states)
	return s.write()
}

// noteStates records states. A task whose state is unchanged keeps the time at which that was first seen.
func (s *sightings) noteStates(states []taskref.State) {
	if s.tasks == nil {
		s.tasks = map[string]sighting{}
	}
	for _, st := range states {
		s.addSpending(st.Spending)
		if s.tasks[st.Task].Commit != st.Commit {
			s.tasks[st.Task] = sighting{Task: st.Task, Commit: st.Commit, Seen: s.now(), Machine: st.Claim.Machine, Host: st.Claim.Host, Since: st.Claim.Since, Worker: st.Worker, Status: st.Status}
		}
	}
}

func (s *sightings) write() error {
	text := sightingsText{Remote: s.remote, Set: s.fromSettings, Silence: s.silence, Asked: s.asked, Spending: s.recentSpending(s.spending), Tasks: slices.Collect(maps.Values(s.tasks))}
	data, err := json.MarshalIndent(text, "", "  ")
	if err == nil {
		err = s.disk.MkdirAll(filepath.Dir(s.path), 0o755)
	}
	if err == nil {
		err = s.disk.WriteFile(s.path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("recording the states of the team's tasks: %w", err)
	}
	if info, err := os.Stat(s.path); err == nil {
		s.readAt = info.ModTime()
	}
	return nil
}

// Forget makes a clone stop sharing its tasks.
func Forget(root string) error {
	if err := os.Remove(SightingsFile(root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the tasks of the team: %w", err)
	}
	return nil
}

func readSightings(path string) (text sightingsText, err error) {
	data, err := durable.ReadBelow(filepath.Dir(path), filepath.Base(path), durable.MaxJournal)
	if err != nil {
		return text, err
	}
	return text, json.Unmarshal(data, &text)
}
