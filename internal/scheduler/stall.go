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

// stall is a task whose runs came to nothing, time and again: they ended, or sleep, without another result of work in the
// journal. The task is run again after longer and longer pauses, and then not until its directory changes.
type stall struct {
	times  int
	until  time.Time  // when it is tried again
	stamps fileStamps // the directory as the last run left it
	why    string     // what it ended with, as the end of a sentence
}

// stallTries is how many runs that come to nothing are begun.
const stallTries = 4

// isGivenUp reports whether only a person can end the stall.
func (s stall) isGivenUp() bool { return s.times >= stallTries }

// fileStamps are the files of a task directory, each with what tells it from a version that was saved later. What lies in its
// folders, as in run/, is not included.
type fileStamps map[string]string

func fileStampsOf(dir string) fileStamps {
	t := fileStamps{}
	entries, _ := os.ReadDir(dir) // an unreadable directory counts as empty: becoming readable is a change
	for _, e := range entries {
		if e.Type().IsRegular() {
			t.add(dir, e.Name())
		}
	}
	return t
}

func (t fileStamps) add(dir, name string) {
	if st, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		t[name] = fmt.Sprint(st.Size(), st.ModTime().UnixNano())
	}
}

// stampsOfFile returns the stamps of one file.
func stampsOfFile(file string) fileStamps {
	t := fileStamps{}
	t.add(filepath.Split(file))
	return t
}

// stalls are the directories whose runs came to nothing.
type stalls map[string]stall

// record records whether a run came to nothing.
func (s stalls) record(r runOutcome) {
	if r.res.Progress || !r.res.Until.IsZero() && !r.ResumesEarly() {
		delete(s, r.Dir)
		return
	}
	last := s[r.Dir]
	last.times++
	last.until = time.Now().Add(time.Second << (last.times - 1))
	last.stamps, last.why = r.files, ""
	if len(r.res.Waits) > 0 {
		waits := slices.Clone(r.res.Waits)
		for i := range waits {
			waits[i].Next = "" // the command was of no use
		}
		last.why = ": it waits for " + waits.String()
	} else if r.err != nil {
		last.why = ": " + errorText(r.err)
	}
	s[r.Dir] = last
}

// find returns the stall of a directory, if nobody has changed anything in it since.
func (s stalls) find(f inspectionResult) (stall, bool) {
	last, ok := s[f.Dir]
	if ok && !maps.Equal(last.stamps, f.files) {
		delete(s, f.Dir)
		return stall{}, false
	}
	return last, ok
}

// problems returns the problem that a person has to solve for a stalled task.
func (s stall) problems(l runner.Assessment) []trellis.Problem {
	what := fmt.Sprintf("its run was begun %d times and came to nothing%s; it is begun again when something in its directory changes", s.times, s.why)
	return l.WithProblem(what, "trellis logs "+trellis.ShellWord(l.Task.ID)+"; then trellis start "+trellis.ShellWord(l.Task.ID)).Problems
}
