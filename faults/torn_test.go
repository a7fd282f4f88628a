package faults

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const journalFile = "repo/.trellis/tasks/" + id + "/run/journal.jsonl"

// A run whose journal ends with a record that was torn, at any byte of it, is resumed as if nothing had happened.
func TestTornJournal(t *testing.T) {
	for _, p := range plays {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.undisturbed(t)
			for i, s := range p.records() {
				for _, cut := range p.cuts(i) {
					p.torn(t, s, cut)
				}
			}
		})
	}
}

// records returns the steps at which a record of the journal has been written and not synced: all of them, or a spread.
func (p *play) records() (list []spot) {
	for _, s := range p.spots {
		if s.Kind == "sync" && s.Path == journalFile {
			list = append(list, s)
		}
	}
	if full() {
		return list
	}
	return []spot{list[len(list)/6], list[len(list)/2], list[len(list)-2]}
}

// cuts returns how many bytes are torn off: now and then every number, else a few, up to more than most records have.
func (p *play) cuts(i int) (list []int) {
	if full() && i%16 == 8 && p == plays[0] {
		for n := range 420 {
			list = append(list, n+1)
		}
		return list
	}
	switch {
	case full():
		return []int{1, 2, 3 + i*7, 9999}
	case p != plays[0]:
		return map[int][]int{1: {2 + i*7}}[i]
	}
	return [][]int{{1}, {17}, {9999}}[i]
}

func (p *play) torn(t *testing.T, s spot, cut int) {
	t.Run(fmt.Sprint(s, " ", cut), func(t *testing.T) {
		t.Parallel()
		w := p.world(t)
		if e := w.trellis(p.Args, "FAULTS_AT="+s.String(), "FAULTS_DO=worker"); e.Code == 0 {
			t.Fatalf("it was not killed:\n%s", e.Said)
		}
		data := []byte(w.read(journalFile))
		last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
		if err := os.Truncate(w.path(journalFile), int64(max(last, len(data)-cut))); err != nil {
			t.Fatal(err)
		}
		if e := w.again(p.Args); e.Code != 0 {
			t.Fatalf("again: exit %d\n%s", e.Code, e.Said)
		}
		p.same(w, 1)
	})
}

// A run whose journal is damaged anywhere else is not resumed: the task fails with `journal`, naming file and line, its
// work is kept, and retry begins a run that delivers.
func TestDamagedJournal(t *testing.T) {
	p := plays[0]
	p.undisturbed(t)
	for name, damage := range map[string]func(data []byte) []byte{
		"changed": func(data []byte) []byte { data[len(data)/2] ^= 1; return data },
		"lost": func(data []byte) []byte {
			at := bytes.IndexByte(data, '\n') + 1
			return append(data[:at:at], data[at+bytes.IndexByte(data[at:], '\n')+1:]...)
		},
		"zeroes": func(data []byte) []byte { clear(data[len(data)/3 : len(data)/2]); return data },
		"twice":  func(data []byte) []byte { return append(data, data...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := p.world(t)
			list := p.records()
			w.trellis(p.Args, "FAULTS_AT="+list[1].String(), "FAULTS_DO=worker")
			if err := os.WriteFile(w.path(journalFile), damage([]byte(w.read(journalFile))), 0o600); err != nil {
				t.Fatal(err)
			}
			e := w.again(p.Args)
			if e.Code != 1 || !strings.Contains(e.Said, "journal.jsonl:") {
				t.Errorf("on a damaged journal: exit %d\n%s", e.Code, e.Said)
			}
			if task := w.fields(w.read("repo/.trellis/tasks/" + id + "/task.json")); !strings.Contains(task, ".status failed") || !strings.Contains(task, ".pipeline.failure.code journal") {
				t.Errorf("the task is\n%s", task)
			}
			if kept := w.git("for-each-ref", "refs/trellis/backup/"+id+"/"); kept == "" {
				t.Error("its work is not kept")
			}
			if e := w.trellis([]string{"retry", id}); e.Code != 0 {
				t.Fatalf("retry: exit %d\n%s", e.Code, e.Said)
			}
			if e := w.trellis(p.Args); e.Code != 0 {
				t.Fatalf("after retry: exit %d\n%s", e.Code, e.Said)
			}
			w.gone()
			w.delivered(id, branch)
		})
	}
}

// delivered checks that a task is in review, that its branch has one commit, and that no files of dead processes are left.
func (w *world) delivered(id, branch string) {
	w.Helper()
	if task := w.fields(w.read("repo/.trellis/tasks/" + id + "/task.json")); !strings.Contains(task, ".status review\n") {
		w.Errorf("%s is\n%s", id, task)
	}
	if got := w.git("rev-list", "--count", "main.."+branch); got != "1" {
		w.Errorf("%s has %s commits", branch, got)
	}
	if left := w.left(); left != "" {
		w.Errorf("left is %s", left)
	}
}
