package proof_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// output adds a file to run, and returns its digest.
func output(run fstest.MapFS, path, text string) proof.Digest {
	run[path] = &fstest.MapFile{Data: []byte(text)}
	return proof.Digest{SHA256: sha(text), Bytes: int64(len(text)), Path: path}
}

// honest returns a task that was delivered: two runs, since the plan was edited after the first; a step of
// every kind, a loop, and the final record.
func honest(t *testing.T) (dir string, w proof.ExpectedState) {
	t.Helper()
	run := fstest.MapFS{}
	w = proof.ExpectedState{Task: task, Runs: []string{task + "/1", task + "/2"}, Plan: "sha256:new plan", Commit: "c2", Tree: "t2", Run: run, Delivered: true}
	var list []proof.Proof
	prove := func(n int, step, kind string, change func(*proof.Proof)) {
		p := proofOf(step)
		p.Run, p.Kind, p.Commit, p.Tree = fmt.Sprintf("%s/%d", task, n), kind, "c1", "t1"
		if n == 2 {
			p.PlanHash = w.Plan
		}
		if kind != "manual" {
			p.Command = "make " + step
			folder := fmt.Sprintf("%d/%s/1/", n, cmp.Or(step, "final"))
			p.Stdout, p.Stderr = output(run, folder+"stdout.log", "ok "+step), output(run, folder+"stderr.log", "")
		}
		if change != nil {
			change(&p)
		}
		list = append(list, p)
	}
	prove(1, "build", "build", nil)                                                              // 1
	prove(1, "lint", "lint", func(p *proof.Proof) { p.StepHash = "sha256:of lint before" })      // 2
	prove(1, "gone", "script", nil)                                                              // 3
	prove(2, "lint", "lint", nil)                                                                // 4
	prove(2, "each/item-1/test", "test", func(p *proof.Proof) { p.StepHash = "sha256:of test" }) // 5
	prove(2, "each/item-2/test", "test", func(p *proof.Proof) { p.StepHash = "sha256:of test" }) // 6
	prove(2, "file", "file", func(p *proof.Proof) {
		p.File = proof.Digest{SHA256: sha("page"), Bytes: 4, Path: "api/page.go"}
	}) // 7
	prove(2, "agree", "manual", func(p *proof.Proof) { p.By = []string{"Ann", "Bob"} }) // 8
	prove(2, "all", "composite", func(p *proof.Proof) {
		p.Checks = []proof.Check{{Kind: "test", Command: "make test", Stdout: output(run, "2/all/1/check-1.log", "fine")}}
	}) // 9
	prove(2, "note", "script", nil) // 10
	prove(2, "", proof.Final, func(p *proof.Proof) {
		p.Activity, p.Step, p.StepHash, p.Commit, p.Tree = "verify/final#1", "", "", "c2", "t2"
		p.Checks = []proof.Check{{Kind: "script", Command: "make"}, {Kind: "script", Command: "make flaky", Exit: 1}}
	}) // 11
	for _, s := range []string{"build", "lint", "file", "agree", "all"} {
		w.Steps = append(w.Steps, proof.Step{Path: s, Hash: "sha256:of " + s, Check: true})
	}
	w.Steps = append(w.Steps, proof.Step{Path: "each/test", Hash: "sha256:of test", Check: true, Loop: true},
		proof.Step{Path: "note", Hash: "sha256:of note"}, proof.Step{Path: "none/test", Check: true, Loop: true})
	dir = t.TempDir()
	add(t, dir, list...)
	return dir, w
}

func verify(t *testing.T, dir string, w proof.ExpectedState) *proof.Report {
	t.Helper()
	a, err := proof.Verify(dir, w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestHonestChainVerifies(t *testing.T) {
	dir, w := honest(t)
	all := strings.SplitAfter(strings.TrimSpace(proofs(t, dir)), "\n")
	a := verify(t, dir, w)
	if !a.OK() || a.NothingToProve || a.NotRechecked != 0 || len(a.Unproven) > 0 || len(a.Records) != len(all) {
		t.Errorf("got %+v", a)
	}
	if got, want := a.Overall, a.Records[len(all)-1].Hash; got != want || !strings.HasPrefix(got, "sha256:") {
		t.Errorf("got overall %q, want the head %q", got, want)
	}
	if want := []string{"build", "lint", "file", "agree", "all", "each/test"}; !reflect.DeepEqual(a.Proven, want) {
		t.Errorf("got proven %v, want %v", a.Proven, want)
	}
	if want := []string{"note", "none/test"}; !reflect.DeepEqual(a.Unchecked, want) {
		t.Errorf("got unchecked %v, want %v", a.Unchecked, want)
	}
	w.Head, w.Commit, w.Run = a.Overall, "another commit of the same tree", nil
	if a := verify(t, dir, w); !a.OK() || a.Overall != w.Head || a.NotRechecked != 21 {
		t.Errorf("without run/: got %+v, want 21 outputs that are not rechecked", a)
	}
	w.Run, w.Runs = os.DirFS(filepath.Join(dir, "gone")), nil
	if a := verify(t, dir, w); !a.OK() || a.NotRechecked != 21 {
		t.Errorf("with a run/ that is gone: got %+v", a)
	}
}

// manipulated is a change to an honest chain, or to the state that it is verified against, and the findings that it must
// cause: "line fault", and words of the reason.
type manipulated struct {
	name  string
	lines func(l []string) []string
	world func(w *proof.ExpectedState)
	found []string
	words string
}

// onLine changes line n of the file.
func onLine(n int, change func(string) string) func([]string) []string {
	return func(l []string) []string { l[n-1] = change(l[n-1]); return l }
}

func replace(old, new string) func(string) string {
	return func(s string) string {
		if !strings.Contains(s, old) {
			panic("no " + old + " in " + s)
		}
		return strings.Replace(s, old, new, 1)
	}
}

// forge changes fields of a line and gives it a matching hash.
func forge(t *testing.T, line string, fields ...string) string {
	for i := 0; i < len(fields); i += 2 {
		line = replace(fields[i], fields[i+1])(line)
	}
	var p proof.Proof
	if err := json.Unmarshal([]byte(line), &p); err != nil {
		t.Fatal(err)
	}
	p.Hash = hashOf(t, line)
	return proof.ProofLine(p)
}

func manipulations(t *testing.T) []manipulated {
	other := t.TempDir()
	stranger := proofOf("build")
	stranger.Task, stranger.Run = "02-02-other", "02-02-other/1"
	add(t, other, stranger)
	foreign := proofs(t, other)
	hashIn := func(line string) string {
		var p proof.Proof
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		return p.Hash
	}
	run := func(change func(fstest.MapFS)) func(*proof.ExpectedState) {
		return func(w *proof.ExpectedState) { change(w.Run.(fstest.MapFS)) }
	}
	last := func(change func(string) string) func([]string) []string { return onLine(11, change) }
	return []manipulated{
		{"first deleted", func(l []string) []string { return l[1:] }, nil, []string{"1 broken"}, "those before it were deleted"},
		{"middle deleted", func(l []string) []string { return slices.Delete(l, 4, 5) }, nil, []string{"5 broken"}, "a record between them was deleted"},
		{"two deleted", func(l []string) []string { return slices.Delete(l, 4, 6) }, nil, []string{"5 broken"}, "line 4"},
		{"last deleted", func(l []string) []string { return l[:10] }, nil, []string{"10 missing", "10 stale"}, "no proof of the committed tree ends the chain"},
		{"tail deleted", func(l []string) []string { return l[:7] }, nil, []string{"7 missing", "7 stale", "0 missing", "0 missing"}, "step agree has no proof"},
		{"tail deleted, head known", func(l []string) []string { return l[:10] },
			func(w *proof.ExpectedState) { w.Delivered, w.Tree, w.Commit, w.Head = false, "", "", "sha256:"+sha("") }, []string{"0 broken"}, "they were cut off or replaced"},
		{"cut inside the last line", last(func(s string) string { return s[:40] }), nil, []string{"11 damaged"}, "the file was cut off here"},
		{"last newline gone", last(func(s string) string { return s[:len(s)-1] }), nil, []string{"11 damaged"}, "it has no end"},
		{"all deleted", func(l []string) []string { return nil }, nil, []string{"0 missing", "0 missing", "0 missing", "0 missing", "0 missing", "0 missing"}, "missing or empty, and the task was delivered"},
		{"swapped", func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }, nil, []string{"5 broken", "6 broken", "7 broken"}, "it was moved: it follows the record that is now in line 6"},
		{"first two swapped", func(l []string) []string { l[0], l[1] = l[1], l[0]; return l }, nil, []string{"1 broken", "2 broken", "3 broken"}, "it follows the record that is now in line 2"},
		{"last two swapped", func(l []string) []string { l[9], l[10] = l[10], l[9]; return l }, nil, []string{"10 broken", "11 broken"}, "now in line 11"},
		{"reversed", func(l []string) []string { slices.Reverse(l); return l }, nil, nil, "it was moved"},
		{"a copy at the end", func(l []string) []string { return append(l, l[3]) }, nil, []string{"12 replayed"}, "it repeats line 4"},
		{"a copy in the middle", func(l []string) []string { return slices.Insert(l, 4, l[3]) }, nil, []string{"5 replayed"}, "it repeats line 4"},
		{"a copy of the last", func(l []string) []string { return append(l, l[10]) }, nil, []string{"12 replayed"}, "it repeats line 11"},
		{"an added record that fits", func(l []string) []string {
			return slices.Insert(l, 4, forge(t, l[4], "step-each/item-1/test/proof#1", "step-each/item-0/test/proof#1", "each/item-1/test\"", "each/item-0/test\""))
		}, nil, []string{"6 broken"}, "follows line 4: what is between them was added"},
		{"an added record that fits, at the end", func(l []string) []string {
			return append(l, forge(t, l[10], "verify/final#1", "verify/final#2", `"previous":"`+hashIn(l[9]), `"previous":"`+hashIn(l[10])))
		}, func(w *proof.ExpectedState) {
			dir, _ := honest(t)
			w.Head = verify(t, dir, *w).Overall
		}, []string{"11 broken"}, "what follows was added"},
		{"a record replaced by one that fits", func(l []string) []string { l[4] = forge(t, l[4], `"exit":0`, `"exit":1`); return l }, nil, []string{"6 broken"}, "that one was replaced"},
		{"a record of another task", func(l []string) []string { return slices.Insert(l, 2, foreign) }, nil, []string{"3 replayed", "4 broken"}, "it is a record of task 02-02-other"},
		{"a record of another task in the place of ours", func(l []string) []string { l[4] = foreign; return l }, nil, []string{"5 replayed", "6 broken"}, "that one was replaced"},
		{"the file of another task", func([]string) []string { return []string{foreign} }, nil, nil, "it is a record of task 02-02-other"},
		{"a record of another task that fits", func(l []string) []string {
			return append(l, forge(t, foreign, `"previous":""`, `"previous":"`+hashIn(l[10])+`"`))
		}, nil, []string{"12 replayed"}, "it is a record of task 02-02-other"},
		{"a record of a run that is none", func(l []string) []string {
			return append(l, forge(t, l[10], `paging/2"`, `paging/9"`, `"previous":"`+hashIn(l[9]), `"previous":"`+hashIn(l[10])))
		}, nil, []string{"12 replayed"}, "run 02-01-paging/9, which is not a run of this task"},
		{"a record of a former run that fits", func(l []string) []string {
			return append(l, forge(t, l[10], `paging/2"`, `paging/1"`, `"previous":"`+hashIn(l[9]), `"previous":"`+hashIn(l[10])))
		}, nil, []string{"12 replayed"}, "run 02-01-paging/1, which ended with line 3"},
		{"the first record of a chain", func(l []string) []string {
			return slices.Insert(l, 4, forge(t, l[4], "step-each/item-1/test/proof#1", "x#1", `"previous":"`+hashIn(l[3])+`"`, `"previous":""`))
		}, nil, []string{"5 broken", "6 broken"}, "it is the first record of a chain"},
		{"a step of another name", onLine(7, func(s string) string { return forge(t, s, `"step":"file"`, `"step":"fire"`) }), nil, []string{"7 stale", "8 broken"}, "the plan has no step fire"},

		{"plan edited", nil, func(w *proof.ExpectedState) { w.Plan = "sha256:edited" }, []string{"11 stale"}, "the plan was edited after this proof"},
		{"plan gone", nil, func(w *proof.ExpectedState) { w.Plan, w.Steps = "", nil }, []string{"11 stale"}, "the plan was removed"},
		{"step changed", nil, func(w *proof.ExpectedState) { w.Steps[2].Hash = "sha256:edited" }, []string{"7 stale"}, "step file was changed after this proof"},
		{"step in a loop changed", nil, func(w *proof.ExpectedState) { w.Steps[5].Hash = "sha256:edited" }, []string{"6 stale"}, "step each/test was changed"},
		{"step added", nil, func(w *proof.ExpectedState) { w.Steps = append(w.Steps, proof.Step{Path: "new", Check: true}) }, []string{"0 missing"}, "step new has no proof"},
		{"step removed", nil, func(w *proof.ExpectedState) { w.Steps = w.Steps[1:]; w.Steps = slices.Delete(w.Steps, 1, 2) }, []string{"7 stale"}, "the plan has no step file"},
		{"branch moved", nil, func(w *proof.ExpectedState) { w.Commit, w.Tree = "c3", "t3" }, []string{"11 stale"}, "it was of tree t2 in commit c2, now there is tree t3 in commit c3"},
		{"branch moved, tree unknown", nil, func(w *proof.ExpectedState) { w.Commit, w.Tree = "c3", "" }, []string{"11 stale"}, "now there is commit c3"},
		{"branch moved, commit unknown", nil, func(w *proof.ExpectedState) { w.Commit, w.Tree = "", "t3" }, []string{"11 stale"}, "now there is tree t3"},
		{"the final failed", last(func(s string) string {
			return forge(t, s, `"ended":"2026-02-01T12:00:01Z","exit":0`, `"ended":"2026-02-01T12:00:01Z","exit":3`)
		}), nil, []string{"11 missing"}, "its last proof exited with 3"},

		{"output changed", nil, run(func(m fstest.MapFS) { m["1/build/1/stdout.log"].Data = []byte("OK build") }), []string{"1 changed"}, "run/1/build/1/stdout.log was changed: it has another sha256"},
		{"output longer", nil, run(func(m fstest.MapFS) { m["1/build/1/stderr.log"].Data = []byte("warning") }), []string{"1 changed"}, "it has 7 bytes, 0 were recorded"},
		{"output of a check changed", nil, run(func(m fstest.MapFS) { m["2/all/1/check-1.log"].Data = []byte("fire") }), []string{"9 changed"}, "check-1.log was changed"},
		{"output missing", nil, run(func(m fstest.MapFS) { delete(m, "2/file/1/stdout.log") }), []string{"7 changed"}, "run/2/file/1/stdout.log is missing"},
		{"output is a folder", nil, run(func(m fstest.MapFS) { m["2/file/1/stdout.log"].Mode = fs.ModeDir }), []string{"7 changed"}, "is not a file"},

		{"unknown key", onLine(5, replace(`,"exit":`, `,"excuse":1,"exit":`)), nil, []string{"5 damaged"}, `unknown field "excuse"`},
		{"duplicate key", onLine(5, replace(`,"exit":0`, `,"exit":0,"exit":0`)), nil, []string{"5 damaged"}, `it has the key "exit" twice`},
		{"duplicate key inside", onLine(5, replace(`"stdout":{"bytes":`, `"stdout":{"bytes":1,"bytes":`)), nil, []string{"5 damaged"}, `it has the key "bytes" twice`},
		{"another case", onLine(5, replace(`"exit":`, `"Exit":`)), nil, []string{"5 damaged"}, "not spelled as it was written"},
		{"a space", onLine(5, replace(`"exit":0`, `"exit": 0`)), nil, []string{"5 damaged"}, "not spelled as it was written"},
		{"an escape", onLine(5, replace(`"kind":"test"`, `"kind":"\u0074est"`)), nil, []string{"5 damaged"}, "not spelled as it was written"},
		{"an empty key", onLine(5, replace(`,"step":`, `,"session":"","step":`)), nil, []string{"5 damaged"}, "not spelled as it was written"},
		{"another order", onLine(5, replace(`"exit":0,"hash":`, `"hash":`)), nil, []string{"5 damaged"}, ""},
		{"a carriage return", onLine(5, replace("\n", "\r\n")), nil, []string{"5 damaged"}, "not spelled as it was written"},
		{"a byte order mark", onLine(1, func(s string) string { return "\ufeff" + s }), nil, []string{"1 damaged"}, "not JSON"},
		{"a blank line", func(l []string) []string { return slices.Insert(l, 4, "\n") }, nil, []string{"5 damaged", "6 broken"}, "not JSON"},
		{"a line that is null", func(l []string) []string { return slices.Insert(l, 4, "null\n") }, nil, []string{"5 damaged", "6 broken"}, ""},
		{"a time of another zone that fits", onLine(11, func(s string) string { return forge(t, s, `12:00:00Z`, `13:00:00+01:00`) }), nil, []string{"11 damaged"}, "in UTC"},
		{"a kind that is none, that fits", onLine(11, func(s string) string { return forge(t, s, `"kind":"final"`, `"kind":"finish"`) }), nil, []string{"11 damaged"}, `the kind is "finish"`},
		{"a newer version", onLine(11, func(s string) string { return forge(t, s, `"v":1`, `"v":2`) }), nil, []string{"11 damaged"}, "its version is 2, this trellis knows 1"},
		{"a newer version with keys", onLine(11, replace(`"v":1`, `"v":2,"x":1`)), nil, []string{"11 damaged"}, "its version is 2, this trellis knows 1"},
	}
}

func TestManipulationsAreFound(t *testing.T) {
	for _, m := range manipulations(t) {
		dir, w := honest(t)
		if m.lines != nil {
			l := strings.SplitAfter(proofs(t, dir), "\n")
			setProofs(t, dir, strings.Join(m.lines(l[:len(l)-1]), ""))
		}
		if m.world != nil {
			m.world(&w)
		}
		a := verify(t, dir, w)
		if a.OK() || a.Overall != "" {
			t.Errorf("%s: got ok %t, overall %q", m.name, a.OK(), a.Overall)
		}
		var found, reasons []string
		for _, f := range a.Findings {
			found, reasons = append(found, fmt.Sprintf("%d %s", f.Line, f.Fault)), append(reasons, f.Message)
			if f.File != filepath.Join(dir, proof.ProofsFile) {
				t.Errorf("%s: got file %s", m.name, f.File)
			}
		}
		if m.found != nil && !reflect.DeepEqual(found, m.found) {
			t.Errorf("%s: got %q, want %q", m.name, found, m.found)
		}
		if !strings.Contains(strings.Join(reasons, "\n"), m.words) {
			t.Errorf("%s: got\n%s\nwant %q", m.name, strings.Join(reasons, "\n"), m.words)
		}
	}
}

// short is a delivered chain of three records in which every field occurs.
func short(t *testing.T) (dir string, w proof.ExpectedState) {
	t.Helper()
	d := proof.Digest{SHA256: sha("x"), Bytes: 1, Path: "1/a"}
	first, second := proofOf("a"), proofOf("b")
	first.Command, first.Commit, first.Tree, first.Session, first.Stdout, first.Stderr = "make", "c1", "t1", "s1", d, d
	second.Kind, second.By, second.File = "composite", []string{"Ann"}, d
	second.Checks = []proof.Check{{Kind: "test", Command: "true", Stdout: d, Stderr: d}}
	final := proof.Proof{Task: task, Run: first.Run, Activity: "f#1", Kind: proof.Final, PlanHash: planHash, Began: noon, Ended: noon}
	dir = t.TempDir()
	add(t, dir, first, second, final)
	w = proof.ExpectedState{Task: task, Plan: planHash, Delivered: true}
	for _, s := range []string{"a", "b"} {
		w.Steps = append(w.Steps, proof.Step{Path: s, Hash: "sha256:of " + s, Check: true})
	}
	if a := verify(t, dir, w); !a.OK() || a.Overall == "" {
		t.Fatalf("got %+v", a)
	}
	return dir, w
}

// step returns the distance in bytes between those that are tried. With TRELLIS_SOAK every byte is.
func step() int {
	if soak.Asked() {
		return 1
	}
	return 7
}

// Every byte counts: whichever is flipped, the finding names its line.
func TestEveryByteCounts(t *testing.T) {
	dir, w := short(t)
	whole := proofs(t, dir)
	for n, flip := range []byte{1, 0x20} {
		for i := n % step(); i < len(whole); i += step() {
			line := 1 + strings.Count(whole[:i], "\n")
			data := []byte(whole)
			data[i] ^= flip
			setProofs(t, dir, string(data))
			a := verify(t, dir, w)
			if a.OK() || a.Overall != "" || a.Findings[0].Line != line || a.Findings[0].Fault != proof.Damaged {
				t.Fatalf("byte %d of line %d, %q instead of %q: got %+v", i, line, data[i], whole[i], a.Findings)
			}
		}
	}
}

// A delivered chain that is cut off anywhere does not verify.
func TestEveryCutShows(t *testing.T) {
	dir, w := short(t)
	whole := proofs(t, dir)
	for i := 0; i < len(whole); i += step() {
		setProofs(t, dir, whole[:i])
		if a := verify(t, dir, w); a.OK() || a.Overall != "" {
			t.Fatalf("cut at byte %d of %d: got ok", i, len(whole))
		}
	}
}

// Before the delivery a step without a proof is not a fault; there is an overall hash only once all steps are proven.
func TestVerifyOnTheWay(t *testing.T) {
	dir, w := honest(t)
	w.Delivered, w.Commit, w.Tree = false, "", ""
	lines := strings.SplitAfter(proofs(t, dir), "\n")
	setProofs(t, dir, strings.Join(lines[:8], ""))
	a := verify(t, dir, w)
	if !a.OK() || a.Overall != "" || len(a.Unproven) != 1 || a.Unproven[0].Step != "all" || len(a.Proven) != 5 {
		t.Errorf("with a step to go: got %+v", a)
	}
	setProofs(t, dir, strings.Join(lines[:9], ""))
	a = verify(t, dir, w)
	if !a.OK() || a.Overall != a.Records[8].Hash || len(a.Unproven) != 0 {
		t.Errorf("with all steps proven: got %+v", a)
	}
	w.Head = a.Records[4].Hash
	if a := verify(t, dir, w); !a.OK() {
		t.Errorf("after a report in between: got %+v", a.Findings)
	}
	w.Head, w.Steps[0].Hash = "", "sha256:edited"
	if a := verify(t, dir, w); a.OK() || a.Findings[0].Fault != proof.Stale || a.Findings[0].Line != 1 || a.Findings[0].Step != "build" {
		t.Errorf("with a step that changed: got %+v", a)
	}
	setProofs(t, dir, "")
	if a := verify(t, dir, w); !a.OK() || a.NothingToProve || a.Overall != "" || len(a.Unproven) != 5 {
		t.Errorf("at the beginning: got %+v", a)
	}
	w.Steps = []proof.Step{{Path: "note", Hash: "sha256:of note"}}
	setProofs(t, dir, strings.Join(lines[:3], ""))
	w.Plan = planHash
	for i := range 3 {
		w.Steps = append(w.Steps, proof.Step{Path: []string{"build", "lint", "gone"}[i]})
	}
	if a := verify(t, dir, w); !a.OK() || a.Overall != "" || len(a.Proven) != 0 || len(a.Unchecked) != 4 {
		t.Errorf("without a check: got %+v, want nothing proven", a)
	}
}

// A step that failed is proven by a later record; of a loop each item counts.
func TestLastRecordCounts(t *testing.T) {
	record := func(n int, step string, exit int) proof.Proof {
		p := proofOf(step)
		p.Activity, p.StepHash, p.Exit = fmt.Sprintf("proof#%d", n), "sha256:1", exit
		return p
	}
	for name, test := range map[string]struct {
		list   []proof.Proof
		proven bool
	}{
		"failed":                 {[]proof.Proof{record(1, "a", 1)}, false},
		"failed, then held":      {[]proof.Proof{record(1, "a", 1), record(2, "a", 0)}, true},
		"held, then failed":      {[]proof.Proof{record(1, "a", 0), record(2, "a", 124)}, false},
		"all items":              {[]proof.Proof{record(1, "l/item-1/b", 0), record(2, "l/item-2/b", 0)}, true},
		"an item":                {[]proof.Proof{record(1, "l/item-1/b", 1), record(2, "l/item-2/b", 0)}, false},
		"an item, mended":        {[]proof.Proof{record(1, "l/item-1/b", 1), record(2, "l/item-2/b", 0), record(3, "l/item-1/b", 0)}, true},
		"a step like an item":    {[]proof.Proof{record(1, "item-1", 0)}, true},
		"its name in a loop":     {[]proof.Proof{record(1, "item-1/b", 0)}, false},
		"a loop in a loop":       {[]proof.Proof{record(1, "l/item-1/m/item-10/c", 0)}, true},
		"its item outside of it": {[]proof.Proof{record(1, "item-x/a", 0)}, false},
	} {
		dir := t.TempDir()
		add(t, dir, test.list...)
		w := proof.ExpectedState{Task: task, Plan: planHash, Steps: []proof.Step{{Path: "a", Hash: "sha256:1", Check: true},
			{Path: "l/b", Hash: "sha256:1", Check: true, Loop: true}, {Path: "item-1", Hash: "sha256:1", Check: true}, {Path: "l/m/c", Hash: "sha256:1", Check: true, Loop: true}}}
		a := verify(t, dir, w)
		if (len(a.Proven) > 0) != test.proven || a.Overall != "" {
			t.Errorf("%s: got proven %v, unproven %+v, overall %q", name, a.Proven, a.Unproven, a.Overall)
		}
		if last := test.list[len(test.list)-1]; last.Exit != 0 && (a.Unproven[0].Line != len(test.list) || !strings.Contains(a.Unproven[0].Message, fmt.Sprint("exited with ", last.Exit))) {
			t.Errorf("%s: got %+v, want the line and the exit code", name, a.Unproven[0])
		}
	}
}

func TestNothingToProve(t *testing.T) {
	dir := t.TempDir()
	for _, delivered := range []bool{false, true} {
		if a := verify(t, dir, proof.ExpectedState{Task: task, Delivered: delivered}); !a.OK() || !a.NothingToProve || a.Overall != "" {
			t.Errorf("delivered %t: got %+v, want that nothing was to be proven", delivered, a)
		}
	}
	if a := verify(t, dir, proof.ExpectedState{Task: task, Plan: planHash}); !a.OK() || a.NothingToProve {
		t.Errorf("with a plan: got %+v", a)
	}
	if a := verify(t, dir, proof.ExpectedState{Task: task, Plan: planHash, Delivered: true}); a.OK() {
		t.Error("a plan was delivered without any proof, and that is fine")
	}
	final := proof.Proof{Task: task, Run: "r", Activity: "f#1", Kind: proof.Final, Began: noon, Ended: noon, Tree: "t"}
	add(t, dir, final)
	if a := verify(t, dir, proof.ExpectedState{Task: task, Tree: "t", Delivered: true}); !a.OK() || a.NothingToProve || a.Overall != a.Records[0].Hash {
		t.Errorf("a final without a plan: got %+v", a)
	}
	if a := verify(t, t.TempDir(), proof.ExpectedState{Task: task, Head: "sha256:" + sha("head")}); a.OK() || a.NothingToProve {
		t.Errorf("a head was reported, and the file is gone: got %+v", a)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, proof.ProofsFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.Verify(folder, proof.ExpectedState{Task: task}); err == nil {
		t.Error("a file that can't be read: got no error")
	}
}

// If output is gone with its whole folder, nothing is reported; a single missing file is.
func TestOutputThatIsGone(t *testing.T) {
	for path, run := range map[string]fstest.MapFS{
		"9/a/1/out": {"1/a": {}},
		"9/out":     {},
		"out":       nil,
	} {
		dir := t.TempDir()
		p := proofOf("a")
		p.Stdout = proof.Digest{SHA256: sha(""), Path: path}
		add(t, dir, p)
		w := proof.ExpectedState{Task: task, Plan: planHash, Run: run, Steps: []proof.Step{{Path: "a", Hash: p.StepHash, Check: true}}}
		if run == nil {
			w.Run = nil
		}
		if a := verify(t, dir, w); !a.OK() || a.NotRechecked != 1 {
			t.Errorf("%s without its folder: got %+v", path, a)
		}
		w.Run = fstest.MapFS{"9/other": {}}
		if a := verify(t, dir, w); a.OK() || a.Findings[0].Fault != proof.Changed {
			t.Errorf("%s missing in its folder: got %+v", path, a)
		}
	}
}
