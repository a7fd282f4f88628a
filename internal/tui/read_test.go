package tui

import (
	"fmt"
	"slices"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// stepped is a screen whose commands are executed one at a time, in the order in which they were given.
type stepped struct {
	*driven
	queue []tea.Cmd
}

// part returns a new screen that reads some of the tasks at a time.
func part(t *testing.T, some, of int) *stepped {
	d := drive(t)
	for i := range of {
		one := task(fmt.Sprintf("02-%02d-part", i+1), trellis.Review)
		d.world.tasks[one.ID] = one
	}
	d.world.some, d.world.asked = some, nil
	m := New(t.Context(), d.world, "shop", true, d.now)
	m.nextTick = d.nextTick
	s := &stepped{driven: &driven{Model: m, t: t, world: d.world}}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.queue = []tea.Cmd{s.Init()}
	return s
}

// step executes the oldest command.
func (s *stepped) step() {
	cmd := s.queue[0]
	s.queue = s.queue[1:]
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		s.queue = append(s.queue, msg...)
	default:
		_, next := s.Update(msg)
		s.queue = append(s.queue, next)
	}
}

func (s *stepped) rest() {
	for len(s.queue) > 0 {
		s.step()
	}
}

// The first tasks are shown before the others are read. After that all tasks are read again, once events are followed.
func TestFirstTasksAtOnce(t *testing.T) {
	s := part(t, 2, 5)
	s.step()
	s.want("reading tasks … 2 of 5", "> 02-01-part", "02-02-part")
	s.rest()
	s.want("5 tasks", "REVIEW 5 tasks", "02-05-part")
	if got, want := s.world.asked, []string{"tasks", "page 02-01-part now", "tasks"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// If a key was pressed, the selection stays when more tasks are read.
func TestKeyWhileTasksAreRead(t *testing.T) {
	for keys, want := range map[string]string{"": "02-00-first", "j": "02-02-part"} {
		s := part(t, 2, 5)
		s.step()
		for _, k := range keys {
			s.Update(press(string(k)))
		}
		first := task("02-00-first", trellis.Waiting)
		s.world.tasks[first.ID] = first
		s.rest()
		if s.list.selected != want {
			t.Errorf("%q: %q is selected, want %q", keys, s.list.selected, want)
		}
	}
}

// A task that changes while the list is read is shown in its new state.
func TestChangeWhileTasksAreRead(t *testing.T) {
	s := part(t, 2, 5)
	s.rest()
	at := s.world.tasks["02-01-part"]
	at.Status = trellis.Failed
	changed := false
	s.world.meanwhile = func() {
		if !changed {
			changed = true
			s.world.tasks[at.ID] = at
		}
	}
	s.queue = append(s.queue, s.readTasks())
	s.step()
	s.Update(taskRead{id: at.ID, task: at})
	s.rest()
	s.want("FAILED 1 task")
}

// If there are no events, the screen says so and still shows all tasks.
func TestAllTasksWithoutEvents(t *testing.T) {
	s := part(t, 2, 5)
	s.world.deaf = fmt.Errorf("no more watches")
	s.rest()
	s.want("5 tasks", "events can't be shown: no more watches")
}
