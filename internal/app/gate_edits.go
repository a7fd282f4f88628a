package app

import (
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

// RecordEdit lets a command change a file of a task, and records what it wrote as made by a person of this clone, whatever git
// does with it later. Anything else in the file, earlier or by the time it is read, is judged when it would be run.
func (g *TrustGate) RecordEdit(dir, name string, write func() (before, after []byte, err error)) error {
	before, after, err := write()
	if err == nil && !g.env.InsideRun() {
		g.WarnNotRecorded(g.recordWritten(dir, name, before, after))
	}
	return err
}

// recordWritten records what a command's change added to a file of a task.
func (g *TrustGate) recordWritten(dir, name string, before, after []byte) error {
	j, err := g.Judge()
	if err != nil {
		return err
	}
	s, err := subject.Task(g.store.Root, g.store.Rel(dir))
	if err != nil {
		return err
	}
	file := path.Join(filepath.ToSlash(g.store.Rel(dir)), name)
	return recordNew(j, s, file, before, after)
}

// recordNew records what a file of a subject says after a change and did not say before.
func recordNew(j *trust.Judge, s trust.Subject, file string, before, after []byte) error {
	old, _ := s.Read(file, before)
	now, _ := s.Read(file, after)
	return j.Record(trust.Made, s.Name, slices.DeleteFunc(now, func(i trust.Item) bool {
		return slices.ContainsFunc(old, func(was trust.Item) bool { return was.ID() == i.ID() })
	})...)
}

// RecordMade records the contents of files of a task that a command has just created.
func (g *TrustGate) RecordMade(dir string, files []string) error {
	j, err := g.Judge()
	if err != nil {
		return err
	}
	s, err := subject.Task(g.store.Root, g.store.Rel(dir))
	if err != nil {
		return err
	}
	s.Files = nil
	for _, name := range files {
		s.Files = append(s.Files, path.Join(filepath.ToSlash(g.store.Rel(dir)), name))
	}
	now, err := j.Items(s)
	if err != nil {
		return err
	}
	return j.Record(trust.Made, filepath.Base(dir), now...)
}

// WarnNotRecorded prints why what a command wrote could not be recorded as made here. It prints nothing for [trust.ErrNoLedger].
func (g *TrustGate) WarnNotRecorded(err error) {
	if err != nil && !errors.Is(err, trust.ErrNoLedger) {
		g.env.say("%v", err)
	}
}
