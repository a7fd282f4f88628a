package app

import (
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

// RecordEdit has a command change a file of a task, and remembers what it wrote into it: that is a person's of this clone, whatever
// git does with it later. What else stands there, before or by the time that it is looked at, is judged when something would run.
func (g *TrustGate) RecordEdit(dir, name string, write func() (before, after []byte, err error)) error {
	before, after, err := write()
	if err == nil && !g.env.InsideRun() {
		g.WarnNotRecorded(g.recordWritten(dir, name, before, after))
	}
	return err
}

// recordWritten remembers what a file of a task says after a command's change of it and did not say before.
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

// recordNew remembers what a file of a subject says now and did not say before.
func recordNew(j *trust.Judge, s trust.Subject, file string, before, after []byte) error {
	old, _ := s.Read(file, before)
	now, _ := s.Read(file, after)
	return j.Record(trust.Made, s.Name, slices.DeleteFunc(now, func(i trust.Item) bool {
		return slices.ContainsFunc(old, func(was trust.Item) bool { return was.ID() == i.ID() })
	})...)
}

// RecordMade remembers what files of a task say that a command has just made.
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
	now, err := j.Says(s)
	if err != nil {
		return err
	}
	return j.Record(trust.Made, filepath.Base(dir), now...)
}

// WarnNotRecorded tells why what a command wrote is not remembered as made here: git may tell so later.
func (g *TrustGate) WarnNotRecorded(err error) {
	if err != nil && !errors.Is(err, trust.ErrNowhere) {
		g.env.say("%v", err)
	}
}
