package scheduler

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// stall is that a task's run was begun and came to nothing, time and again: it ended, or sleeps, without one more result
// of work in its journal. It is begun again ever later, and then no more until its directory changes.
type stall struct {
	times int
	until time.Time // when it is tried again
	left  traces    // the directory as the last run left it
	why   string    // what it ended with, as the end of a sentence
}

// stallTries is how often a run that comes to nothing is begun.
const stallTries = 4

// over reports whether nobody but a person can end the stall.
func (s stall) over() bool { return s.times >= stallTries }

// traces are the files of a task directory, each with what tells it from one that was saved since. What lies in its
// folders, as run/ does, is not among them.
type traces map[string]string

func tracesOf(dir string) traces {
	t := traces{}
	entries, _ := os.ReadDir(dir) // one that can't be read is as good as empty: that changes, too
	for _, e := range entries {
		if e.Type().IsRegular() {
			t.add(dir, e.Name())
		}
	}
	return t
}

func (t traces) add(dir, name string) {
	if st, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		t[name] = fmt.Sprint(st.Size(), st.ModTime().UnixNano())
	}
}

// traceOf is that of one file.
func traceOf(file string) traces {
	t := traces{}
	t.add(filepath.Split(file))
	return t
}

// stalls are the directories whose runs came to nothing.
type stalls map[string]stall

// ran takes in that a run came to nothing, or did not.
func (s stalls) ran(r ran) {
	if r.res.Progress || !r.res.Until.IsZero() && !r.Early() {
		delete(s, r.Dir)
		return
	}
	last := s[r.Dir]
	last.times++
	last.until = time.Now().Add(time.Second << (last.times - 1))
	last.left, last.why = r.files, ""
	if len(r.res.Waits) > 0 {
		waits := slices.Clone(r.res.Waits)
		for i := range waits {
			waits[i].Next = "" // which was of no use
		}
		last.why = ": it waits for " + waits.String()
	} else if r.err != nil {
		last.why = ": " + errorText(r.err)
	}
	s[r.Dir] = last
}

// of is the stall of a directory, if nobody has done anything about it since.
func (s stalls) of(f inspected) (stall, bool) {
	last, ok := s[f.Dir]
	if ok && !maps.Equal(last.left, f.files) {
		delete(s, f.Dir)
		return stall{}, false
	}
	return last, ok
}

// problems says that a person has to look at a task.
func (s stall) problems(l runner.Assessment) []trellis.Problem {
	what := fmt.Sprintf("its run was begun %d times and came to nothing%s; it is begun again when something in its directory changes", s.times, s.why)
	return l.WithProblem(what, "trellis logs "+trellis.ShellWord(l.Task.ID)+"; then trellis start "+trellis.ShellWord(l.Task.ID)).Problems
}
