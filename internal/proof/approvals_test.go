package proof_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
)

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// The test binary also plays the other process that a test needs.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EVIDENCE_TEST_APPEND"); dir != "" {
		for i := range 25 {
			a := proof.Approval{Step: fmt.Sprint(i), Decision: proof.Approve, By: os.Getenv("EVIDENCE_TEST_BY"), Hash: "sha256:1"}
			if err := proof.Append(nil, dir, a); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	if dir := os.Getenv("EVIDENCE_TEST_PROVE"); dir != "" {
		proveMany(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, proof.ApprovalsFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, proof.ApprovalsFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAppendAndRead(t *testing.T) {
	dir := t.TempDir()
	if list, problems, err := proof.Read(dir); list != nil || problems != nil || err != nil {
		t.Errorf("without a file: got %v %v %v, want nothing", list, problems, err)
	}
	want := []proof.Approval{
		{Step: "", Decision: proof.Approve, By: "Ann <ann@x>", Reason: "fine & \"good\"\nreally", At: noon, Hash: "sha256:1", Line: 1},
		{Step: "deploy", Decision: proof.Reject, By: "bob", Reason: "", At: noon.Add(time.Hour), Hash: "sha256:2", ExpiresAt: noon.Add(24 * time.Hour), Line: 2},
	}
	for _, a := range want {
		if err := proof.Append(nil, dir, a); err != nil {
			t.Fatal(err)
		}
	}
	got, problems, err := proof.Read(dir)
	for i, line := range strings.Split(strings.TrimSpace(text(t, dir)), "\n") {
		want[i].Text = line
	}
	if err != nil || len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v %v, want %+v", got, problems, err, want)
	}
	first, _, _ := strings.Cut(text(t, dir), "\n")
	if want := `{"step":"","decision":"approve","by":"Ann <ann@x>","reason":"fine & \"good\"\nreally","at":"2026-02-01T12:00:00Z","hash":"sha256:1","expires_at":null}`; first != want {
		t.Errorf("got line %s, want %s", first, want)
	}
}

func TestAppendRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, a := range []proof.Approval{{Decision: "maybe", By: "ann"}, {Decision: proof.Approve}, {Decision: proof.Approve, By: "  "}, {By: "ann"}} {
		if err := proof.Append(nil, dir, a); err == nil {
			t.Errorf("%+v: got no error", a)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, proof.ApprovalsFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused decision was written (%v)", err)
	}
	gone := filepath.Join(dir, "gone")
	if err := proof.Append(nil, gone, proof.Approval{Decision: proof.Approve, By: "ann"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a directory that is gone", err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Error("a directory that was gone came back")
	}
}

func TestReadNamesLines(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "\ufeff{\"decision\": \"approve\", \"by\": \"ann\", \"mine\": 1}\r\n"+
		"\n"+
		"[1]\n"+
		"{\"decision\": \"yes\", \"by\": \"ann\"}\n"+
		"{\"decision\": \"reject\"}\n"+
		"{\"decision\": \"reject\", \"by\": \"bob\", \"at\": \"soon\"}\n"+
		"{\"decision\": \"reject\", \"by\": \"bob\"}")
	list, problems, err := proof.Read(dir)
	if err != nil || len(list) != 2 || list[0].By != "ann" || list[1].By != "bob" || list[1].Line != 7 {
		t.Errorf("got %+v %v, want the lines 1 and 7", list, err)
	}
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
		if p.Hint == "" || filepath.Base(p.File) != proof.ApprovalsFile {
			t.Errorf("got %+v, want file and hint", p)
		}
	}
	if want := []int{3, 4, 5, 6}; !reflect.DeepEqual(lines, want) {
		t.Errorf("got problems in lines %v, want %v", lines, want)
	}
	write(t, dir, "{\"decision\": \"approve\", \"by\": \"ann\"}\n{\"decision\": \"app")
	if list, problems, _ := proof.Read(dir); len(list) != 1 || len(problems) != 1 || problems[0].Line != 2 {
		t.Errorf("a torn line: got %v %v, want one decision and a problem in line 2", list, problems)
	}
}

func TestBind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "{\"step\": \"\", \"decision\": \"approve\", \"by\": \"ann\", \"mine\": 1.0 }\r\n"+
		"{\"decision\": \"approve\", \"by\": \"bob\", \"hash\": \"sha256:old\"}\n"+
		"torn {\n"+
		"{\"step\": \"deploy\", \"hash\": \"\", \"decision\": \"reject\", \"by\": \"eve\"}")
	hash := func(a proof.Approval) (string, error) { return "sha256:" + a.Step + "now", nil }
	n, err := proof.Bind(nil, dir, hash)
	if err != nil || n != 2 {
		t.Errorf("got %d %v, want 2", n, err)
	}
	want := "{\"step\": \"\", \"decision\": \"approve\", \"by\": \"ann\", \"mine\": 1.0 , \"hash\": \"sha256:now\"}\r\n" +
		"{\"decision\": \"approve\", \"by\": \"bob\", \"hash\": \"sha256:old\"}\n" +
		"torn {\n" +
		"{\"step\": \"deploy\", \"hash\": \"sha256:deploynow\", \"decision\": \"reject\", \"by\": \"eve\"}"
	if got := text(t, dir); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n, err := proof.Bind(nil, dir, hash); n != 0 || err != nil || text(t, dir) != want {
		t.Errorf("the second time: got %d %v, want nothing to do", n, err)
	}
	write(t, dir, `{"decision": "approve", "by": "ann"}`)
	broken := errors.New("no plan")
	if _, err := proof.Bind(nil, dir, func(proof.Approval) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of hash", err)
	}
	if got := text(t, dir); got != `{"decision": "approve", "by": "ann"}` {
		t.Errorf("after an error: got %s", got)
	}
	if n, err := proof.Bind(nil, t.TempDir(), hash); n != 0 || err != nil {
		t.Errorf("without a file: got %d %v", n, err)
	}
}

// Edge F3: a line that a person adds while the other lines get their hashes is kept, and gets its own hash.
func TestBindKeepsASaveWithinEachStep(t *testing.T) {
	const line = `{"step": "", "decision": "approve", "by": "ann"}` + "\n"
	for n := 1; ; n++ {
		dir := t.TempDir()
		write(t, dir, line)
		step, saved := 0, false
		disk := &durable.Disk{Fault: func(_, path string) error {
			if filepath.Base(path) != proof.ApprovalsFile { // the folder for the lock
				return nil
			}
			if step++; step == n {
				saved = true
				write(t, dir, text(t, dir)+strings.Replace(line, "ann", "bob", 1))
			}
			return nil
		}}
		_, err := proof.Bind(disk, dir, func(proof.Approval) (string, error) { return "h", nil })
		if !saved {
			return
		}
		list, _, _ := proof.Read(dir)
		if err != nil || len(list) != 2 || list[0].Hash != "h" || list[1].By != "bob" {
			t.Errorf("at step %d: got %v, %v", n, list, err)
		}
	}
}

func TestAppendByManyProcesses(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "EVIDENCE_TEST_APPEND="+dir, fmt.Sprintf("EVIDENCE_TEST_BY=%d", w), "GORACE=atexit_sleep_ms=0")
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v: %s", w, err, out)
			}
		})
	}
	bound := 0
	for range 10 { // meanwhile a file with unbound lines is rewritten again and again
		if err := proof.Append(nil, dir, proof.Approval{Decision: proof.Approve, By: "hand"}); err != nil {
			t.Error(err)
		}
		n, err := proof.Bind(nil, dir, func(proof.Approval) (string, error) { return "sha256:1", nil })
		if err != nil {
			t.Error(err)
		}
		bound += n
	}
	all.Wait()
	list, problems, err := proof.Read(dir)
	if err != nil || len(problems) > 0 || len(list) != 4*25+10 || bound != 10 {
		t.Errorf("got %d lines, %d bound, %v %v; want %d and 10", len(list), bound, problems, err, 4*25+10)
	}
}

func TestAppendSurvivesFaults(t *testing.T) {
	for fail := 1; ; fail++ {
		dir := t.TempDir()
		old := proof.Approval{Decision: proof.Approve, By: "ann", Hash: "h", Line: 1}
		if err := proof.Append(nil, dir, old); err != nil {
			t.Fatal(err)
		}
		old.Text = strings.TrimSpace(text(t, dir))
		broken, step := errors.New("disk on fire"), 0
		disk := &durable.Disk{Fault: func(string, string) error {
			if step++; step == fail {
				return broken
			}
			return nil
		}}
		err := proof.Append(disk, dir, proof.Approval{Decision: proof.Reject, By: "bob", Hash: "h"})
		list, problems, readErr := proof.Read(dir)
		if readErr != nil || len(problems) > 0 || len(list) < 1 || !reflect.DeepEqual(list[0], old) {
			t.Errorf("fault at step %d: got %v %v %v", fail, list, problems, readErr)
		}
		if err == nil {
			if len(list) != 2 || fail < 4 {
				t.Errorf("after %d steps: got %v, want both", fail-1, list)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Errorf("fault at step %d: got %v", fail, err)
		}
	}
}

func TestDecide(t *testing.T) {
	const now = "sha256:now"
	yes := func(by string) proof.Approval {
		return proof.Approval{Decision: proof.Approve, By: by, Hash: now, Reason: "by " + by}
	}
	no := func(by string) proof.Approval {
		return proof.Approval{Decision: proof.Reject, By: by, Hash: now, Reason: "by " + by}
	}
	with := func(a proof.Approval, change func(*proof.Approval)) proof.Approval { change(&a); return a }
	stale := func(a proof.Approval) proof.Approval {
		return with(a, func(a *proof.Approval) { a.Hash = "sha256:old" })
	}
	unbound := with(yes("hand"), func(a *proof.Approval) { a.Hash = "" })
	step := with(yes("ann"), func(a *proof.Approval) { a.Step = "deploy" })
	until := func(a proof.Approval, d time.Duration) proof.Approval {
		return with(a, func(a *proof.Approval) { a.ExpiresAt = noon.Add(d) })
	}
	type list = []proof.Approval
	tests := []struct {
		name      string
		list      list
		approvers int
		state     proof.State
		by        string
		missing   int
		unbound   int
	}{
		{"nobody said anything", nil, 1, proof.Pending, "", 1, 0},
		{"one yes", list{yes("ann")}, 1, proof.Approved, "ann", 0, 0},
		{"none wanted is one wanted", list{}, 0, proof.Pending, "", 1, 0},
		{"one no", list{no("ann")}, 1, proof.Rejected, "ann", 1, 0},
		{"yes before no", list{yes("ann"), no("bob")}, 1, proof.Approved, "ann", 0, 0},
		{"no before yes", list{no("bob"), yes("ann")}, 1, proof.Rejected, "bob", 1, 0},
		{"one of two", list{yes("ann")}, 2, proof.Pending, "ann", 1, 0},
		{"the same person twice", list{yes("ann"), yes("Ann")}, 2, proof.Pending, "ann", 1, 0},
		{"two of two", list{yes("ann"), yes("ann"), yes("bob"), no("eve")}, 2, proof.Approved, "ann bob", 0, 0},
		{"no after one of two", list{yes("ann"), no("ann")}, 2, proof.Rejected, "ann", 1, 0},
		{"an edit voids", list{stale(yes("ann"))}, 1, proof.Pending, "", 1, 0},
		{"an edit voids a no too", list{stale(no("bob")), yes("ann")}, 1, proof.Approved, "ann", 0, 0},
		{"another step", list{step}, 1, proof.Pending, "", 1, 0},
		{"expired", list{until(yes("ann"), 0)}, 1, proof.Pending, "", 1, 0},
		{"expired no", list{until(no("ann"), -time.Hour), yes("bob")}, 1, proof.Approved, "bob", 0, 0},
		{"not yet expired", list{until(yes("ann"), time.Second)}, 1, proof.Approved, "ann", 0, 0},
		{"without a hash", list{unbound}, 1, proof.Pending, "", 1, 1},
		{"without a hash after the end", list{yes("ann"), unbound}, 1, proof.Approved, "ann", 0, 1},
	}
	for _, test := range tests {
		v := proof.Decide(test.list, "", now, test.approvers, noon)
		if v.State != test.state || strings.Join(v.By, " ") != test.by || v.Missing != test.missing || len(v.Unbound) != test.unbound {
			t.Errorf("%s: got %+v, want %s by %q, %d missing, %d unbound", test.name, v, test.state, test.by, test.missing, test.unbound)
		}
		if v.State != proof.Pending && v.Reason != "by "+v.By[len(v.By)-1] {
			t.Errorf("%s: got reason %q, want that of who decided", test.name, v.Reason)
		}
	}
	if v := proof.Decide(list{step}, "deploy", now, 1, noon); v.State != proof.Approved {
		t.Errorf("a step: got %+v, want approved", v)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("{\"decision\":\"approve\",\"by\":\"ann\"}\n")
	f.Add("{\"decision\":\"reject\",\"by\":\"b\",\"hash\":\"\",\"Hash\":\"\"}")
	f.Add("\ufeff{\"decision\":\"approve\",\"by\":\"ann\",\"hash\": null}\r\n[]\nx")
	f.Fuzz(func(t *testing.T, in string) {
		dir := t.TempDir()
		write(t, dir, in)
		before, _, err := proof.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		wanted := 0
		for i := range before {
			if before[i].Hash == "" {
				before[i].Hash = "sha256:1"
				wanted++
			}
		}
		n, err := proof.Bind(nil, dir, func(proof.Approval) (string, error) { return "sha256:1", nil })
		if err != nil || n != wanted {
			t.Errorf("%q: bound %d %v, want %d", in, n, err, wanted)
		}
		after, _, _ := proof.Read(dir)
		for i := range min(len(before), len(after)) {
			before[i].Text, after[i].Text = "", "" // the line has the hash now
		}
		if !reflect.DeepEqual(after, before) {
			t.Errorf("%q: binding gave %+v, want %+v", in, after, before)
		}
	})
}
