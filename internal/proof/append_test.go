package proof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
)

const (
	task     = "02-01-paging"
	planHash = "sha256:plan"
)

// proofOf returns a proof that a step holds, with only the fields that a proof must have.
func proofOf(step string) proof.Proof {
	return proof.Proof{
		Task: task, Run: task + "/1", Activity: "step-" + step + "/proof#1", Kind: "script",
		PlanHash: planHash, Step: step, StepHash: "sha256:of " + step, Began: noon, Ended: noon.Add(time.Second),
	}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func add(t *testing.T, dir string, list ...proof.Proof) []proof.Proof {
	t.Helper()
	got, err := (&proof.Chain{Dir: dir}).Append(list...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func proofs(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, proof.ProofsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func setProofs(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, proof.ProofsFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A record of every field is read back as it was written, and its line is spelled as documented.
func TestProofRoundTrip(t *testing.T) {
	dir := t.TempDir()
	zone := time.FixedZone("east", 2*3600)
	first := proof.Proof{
		Activity: "a#1", Began: noon.In(zone).Add(1234567), Ended: noon.Add(time.Minute), By: []string{"Ann", "Bob"},
		Checks:  []proof.Check{{Kind: "lint", Command: "vet", Exit: 1, Stdout: proof.Digest{SHA256: sha("x"), Bytes: 1, Path: "1/a/1/out"}}},
		Command: "grep '<&>' \u2028 \\u2029 \xff \x01\x7f\t", Commit: "c0ffee", Exit: -1, File: proof.Digest{SHA256: sha("f"), Bytes: 3, Path: "api/page.go"},
		Kind: "composite", PlanHash: planHash, Run: "r", Session: "s", Step: "each/item-2/build", StepHash: "sha256:2", Task: task, Tree: "7ree",
		Stdout: proof.Digest{SHA256: sha(""), Path: "1/a/1/stdout.log"}, Stderr: proof.Digest{SHA256: sha("e"), Bytes: 1},
	}
	final := proof.Proof{Activity: "final#1", Began: noon, Ended: noon, Kind: proof.Final, Run: "r", Task: task}
	want := add(t, dir, first, final)
	got, problems, err := proof.ReadProofs(dir)
	if err != nil || problems != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v %v %v, want %+v", got, problems, err, want)
	}
	first.Began, first.Command = noon.Add(time.Millisecond), strings.ToValidUTF8(first.Command, "\ufffd")
	first.Version, first.Line, first.Hash = 1, 1, got[0].Hash
	if !reflect.DeepEqual(got[0], first) {
		t.Errorf("got %+v, want %+v", got[0], first)
	}
	lines := strings.SplitAfter(proofs(t, dir), "\n")
	if want := `{"activity":"a#1","began":"2026-02-01T12:00:00.001Z","by":["Ann","Bob"],"checks":[{"command":"vet","exit":1,"kind":"lint",` +
		`"stdout":{"bytes":1,"path":"1/a/1/out","sha256":"` + sha("x") + `"}}],"command":"grep '<&>' ` + "\u2028" + ` \\u2029 ` + "\ufffd" + ` \u0001` + "\x7f" + `\t","commit":"c0ffee",` +
		`"ended":"2026-02-01T12:01:00Z","exit":-1,"file":{"bytes":3,"path":"api/page.go","sha256":"` + sha("f") + `"},"hash":"` + got[0].Hash + `","kind":"composite",` +
		`"plan_hash":"sha256:plan","previous":"","run":"r","session":"s","stderr":{"bytes":1,"sha256":"` + sha("e") + `"},"stdout":{"bytes":0,"path":"1/a/1/stdout.log","sha256":"` + sha("") + `"},` +
		`"step":"each/item-2/build","step_hash":"sha256:2","task":"02-01-paging","tree":"7ree","v":1}` + "\n"; lines[0] != want {
		t.Errorf("got  %swant %s", lines[0], want)
	}
	if got[1].Previous != got[0].Hash {
		t.Errorf("got %s before the second record, want %s", got[1].Previous, got[0].Hash)
	}
}

// The hash of a record can be computed from its line alone: keys sorted, without hash and white space.
func TestProofHashIsThatOfItsFields(t *testing.T) {
	dir := t.TempDir()
	list := add(t, dir, proofOf("a"), proofOf("b"))
	for i, line := range strings.Split(strings.TrimSpace(proofs(t, dir)), "\n") {
		if got := hashOf(t, line); got != list[i].Hash {
			t.Errorf("line %d: got %s, want %s", i+1, got, list[i].Hash)
		}
	}
}

// hashOf computes the hash of a line in another way than the package does.
func hashOf(t *testing.T, line string) string {
	t.Helper()
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "hash")
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields); err != nil {
		t.Fatal(err)
	}
	return "sha256:" + sha(strings.TrimSpace(b.String()))
}

func TestAppendProofOnce(t *testing.T) {
	dir := t.TempDir()
	chain := &proof.Chain{Dir: dir}
	first, err := chain.Append(proofOf("a"), proofOf("b"))
	if err != nil {
		t.Fatal(err)
	}
	before := proofs(t, dir)
	again := proofOf("a")
	again.Ended = noon.Add(time.Hour) // the activity was entered again after a crash
	for name, c := range map[string]*proof.Chain{"the same process": chain, "another": {Dir: dir}} {
		got, err := c.Append(again)
		if err != nil || !reflect.DeepEqual(got, first[:1]) || proofs(t, dir) != before {
			t.Errorf("%s: got %+v %v, want the record that was there", name, got, err)
		}
	}
	other := again
	other.Step = "c"
	if _, err := chain.Append(other); !errors.Is(err, proof.ErrChain) || !strings.Contains(err.Error(), "line 1 is another record") {
		t.Errorf("another record of the same activity: got %v", err)
	}
	if got, err := chain.Append(proofOf("b"), proofOf("c"), proofOf("c")); err != nil || got[0].Line != 2 || got[1].Line != 3 || got[2].Line != 3 {
		t.Errorf("an old and a new one twice: got %+v %v", got, err)
	}
	if got := strings.Count(proofs(t, dir), "\n"); got != 3 {
		t.Errorf("got %d records, want 3", got)
	}
}

func TestAppendProofRefuses(t *testing.T) {
	with := func(change func(*proof.Proof)) proof.Proof { p := proofOf("b"); change(&p); return p }
	dir := t.TempDir()
	add(t, dir, proofOf("a"))
	next := with(func(p *proof.Proof) { p.Run, p.Activity = task+"/2", "x#1" })
	for name, test := range map[string]struct {
		proof proof.Proof
		want  string
	}{
		"no kind":         {with(func(p *proof.Proof) { p.Kind = "guess" }), `the kind is "guess"`},
		"no step":         {with(func(p *proof.Proof) { p.Step = "" }), "names no step"},
		"no step hash":    {with(func(p *proof.Proof) { p.StepHash = "" }), "names no step"},
		"final of a step": {with(func(p *proof.Proof) { p.Kind = proof.Final }), "of no step"},
		"no task":         {with(func(p *proof.Proof) { p.Task = "" }), "must name task"},
		"no run":          {with(func(p *proof.Proof) { p.Run = "" }), "must name task"},
		"no activity":     {with(func(p *proof.Proof) { p.Activity = "" }), "must name task"},
		"no time":         {with(func(p *proof.Proof) { p.Ended = time.Time{} }), "when it began"},
		"no digest":       {with(func(p *proof.Proof) { p.Stdout.Bytes = 1 }), "is not a digest"},
		"no size":         {with(func(p *proof.Proof) { p.Stderr = proof.Digest{SHA256: sha(""), Bytes: -1} }), "is not a digest"},
		"path outside":    {with(func(p *proof.Proof) { p.File = proof.Digest{SHA256: sha(""), Path: "../x"} }), `"../x" must be`},
		"path of a check": {with(func(p *proof.Proof) {
			p.Checks = []proof.Check{{Kind: "test", Stdout: proof.Digest{SHA256: sha(""), Path: "/x"}}}
		}), `"/x" must be`},
		"kind of a check":  {with(func(p *proof.Proof) { p.Checks = []proof.Check{{Kind: proof.Final}} }), `the kind of a check is "final"`},
		"another task":     {with(func(p *proof.Proof) { p.Task = "02-02-other" }), "record of task 02-02-other"},
		"a year too large": {with(func(p *proof.Proof) { p.Ended = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), "year"},
	} {
		before := proofs(t, dir)
		if _, err := (&proof.Chain{Dir: dir}).Append(test.proof); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
		if _, err := (&proof.Chain{Dir: dir}).Append(next, test.proof); err == nil || proofs(t, dir) != before {
			t.Errorf("%s, after a good one: got %v, and the file was changed: %t", name, err, proofs(t, dir) != before)
		}
	}
	add(t, dir, next)
	if _, err := (&proof.Chain{Dir: dir}).Append(proofOf("b")); !errors.Is(err, proof.ErrChain) || !strings.Contains(err.Error(), "ended with line 1") {
		t.Errorf("a run that another has followed: got %v", err)
	}
	gone := filepath.Join(dir, "gone")
	if _, err := (&proof.Chain{Dir: gone}).Append(proofOf("a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a directory that is gone", err)
	}
}

// A chain that was changed in any way accepts no more records, whether it was read before or not.
func TestAppendProofToDamage(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"a byte":        func(s string) string { return strings.Replace(s, `"exit":0`, `"exit":1`, 1) },
		"a line gone":   func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest },
		"a line added":  func(s string) string { return s + strings.SplitAfter(s, "\n")[0] },
		"lines swapped": func(s string) string { l := strings.SplitAfter(s, "\n"); return l[1] + l[0] },
		"a blank line":  func(s string) string { return s + "\n" },
		"no JSON":       func(s string) string { return s + "this\n" },
		"other JSON":    func(s string) string { return s + "{}" },
		"zeros inside":  func(s string) string { l := strings.SplitAfter(s, "\n"); return "\x00\x00\n" + l[1] },
	} {
		dir := t.TempDir()
		chain := &proof.Chain{Dir: dir}
		if _, err := chain.Append(proofOf("a"), proofOf("b")); err != nil {
			t.Fatal(err)
		}
		damaged := change(proofs(t, dir))
		setProofs(t, dir, damaged)
		for who, c := range map[string]*proof.Chain{"the same": chain, "another": {Dir: dir}} {
			_, err := c.Append(proofOf("c"))
			if !errors.Is(err, proof.ErrChain) || !strings.Contains(err.Error(), proof.ProofsFile+":") || proofs(t, dir) != damaged {
				t.Errorf("%s, %s: got %v", name, who, err)
			}
		}
		if _, problems, err := proof.ReadProofs(dir); err != nil || len(problems) == 0 || problems[0].Line == 0 || filepath.Base(problems[0].File) != proof.ProofsFile {
			t.Errorf("%s: reading found %+v %v", name, problems, err)
		}
	}
}

// What a power cut leaves of the last record is replaced by the complete record.
func TestAppendProofAfterPowerCut(t *testing.T) {
	whole := t.TempDir()
	add(t, whole, proofOf("a"), proofOf("b"))
	want := proofs(t, whole)
	begin := strings.Index(want, "\n") + 1
	torn := map[string]string{"a zero page after it": want[:begin] + strings.Repeat("\x00", 4096), "half a page lost": want[:len(want)-90] + strings.Repeat("\x00", 60) + want[len(want)-30:]}
	for cut := begin; cut < len(want); cut += 23 {
		torn[fmt.Sprint("cut at ", cut)] = want[:cut]
	}
	torn["without newline"], torn["without brace"], torn["in the first line"] = want[:len(want)-1], want[:len(want)-2], want[:begin-9]
	for name, text := range torn {
		dir := t.TempDir()
		setProofs(t, dir, text)
		if add(t, dir, proofOf("a"), proofOf("b")); proofs(t, dir) != want {
			t.Errorf("%s: got %q", name, proofs(t, dir))
		}
	}
}

func TestAppendProofSurvivesFaults(t *testing.T) {
	whole := t.TempDir()
	add(t, whole, proofOf("a"), proofOf("b"))
	want := proofs(t, whole)
	old, _, _ := strings.Cut(want, "\n")
	old += "\n"
	for _, start := range []string{old, want, old + "{\"act"} { // a record to add, one that exists, and one to repair
		done := false
		for fail := 1; !done; fail++ {
			dir := t.TempDir()
			setProofs(t, dir, start)
			broken, step := errors.New("disk on fire"), 0
			disk := &durable.Disk{Fault: func(string, string) error {
				if step++; step == fail {
					return broken
				}
				return nil
			}}
			chain := &proof.Chain{Disk: disk, Dir: dir}
			_, err := chain.Append(proofOf("b"))
			if done = err == nil; !done && !errors.Is(err, broken) {
				t.Errorf("fault at step %d: got %v", fail, err)
			}
			if got := proofs(t, dir); got != want && (done || got != old && got != start) {
				t.Errorf("fault at step %d: got %q", fail, got)
			}
			disk.Fault = nil
			if _, err := chain.Append(proofOf("b")); err != nil || proofs(t, dir) != want {
				t.Errorf("after the fault at step %d: got %v and %q", fail, err, proofs(t, dir))
			}
			if fail > 20 {
				t.Fatal("it never succeeds")
			}
		}
	}
}

// An existing record is only returned once it is safe: its writer may have died before the sync.
func TestAppendProofSyncsWhatItFinds(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, proofOf("a"))
	var steps []string
	chain := &proof.Chain{Dir: dir, Disk: &durable.Disk{Fault: func(step, path string) error {
		steps = append(steps, step)
		return nil
	}}}
	for range 2 {
		if _, err := chain.Append(proofOf("a")); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(slices.DeleteFunc(steps, func(s string) bool { return s == "mkdir" }), " "); got != "sync syncdir" {
		t.Errorf("got steps %q, want one sync of file and folder", got)
	}
}

// List returns the records without what a power cut left behind them, and reports any other damage.
func TestListProofs(t *testing.T) {
	dir := t.TempDir()
	chain := &proof.Chain{Dir: dir}
	if list, err := chain.List(); err != nil || list != nil {
		t.Errorf("nothing there: got %v, %v", list, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("looking made %v, %v", entries, err)
	}
	add(t, dir, proofOf("a"))
	whole := proofs(t, dir)
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, proof.ProofsFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(whole + whole[:len(whole)/2])
	if list, err := (&proof.Chain{Dir: dir}).List(); err != nil || len(list) != 1 || list[0].Step != "a" || proofs(t, dir) != whole {
		t.Errorf("half a record: got %v, %v and %q", list, err, proofs(t, dir))
	}
	write(whole[:len(whole)/2] + "\n" + whole)
	if list, err := (&proof.Chain{Dir: dir}).List(); !errors.Is(err, proof.ErrChain) {
		t.Errorf("a damaged one: got %v, %v", list, err)
	}
}

// A reader that finds half a record waits for the other half.
func TestReadProofsWhileWritten(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, proofOf("a"))
	var all sync.WaitGroup
	defer all.Wait()
	writes := 0
	disk := &durable.Disk{Fault: func(step, path string) error {
		if step == "write" && filepath.Base(path) == proof.ProofsFile {
			writes++
		}
		if writes != 2 {
			return nil
		}
		writes++
		all.Go(func() {
			if _, problems, err := proof.ReadProofs(dir); err != nil || problems != nil {
				t.Errorf("got %v %v", problems, err)
			}
		})
		time.Sleep(5 * time.Millisecond) // so that the reader comes while there is half a record
		return nil
	}}
	if _, err := (&proof.Chain{Disk: disk, Dir: dir}).Append(proofOf("b")); err != nil {
		t.Error(err)
	}
}

const provers, proofsEach = 4, 12

func proveMany(dir string) {
	chain := &proof.Chain{Dir: dir}
	for i := range proofsEach {
		p := proofOf(fmt.Sprintf("s%s-%d", os.Getenv("EVIDENCE_TEST_BY"), i))
		for range 2 {
			if _, err := chain.Append(p); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
}

// If several processes and goroutines write, each record is there once, in one chain.
func TestAppendProofByMany(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range provers {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "EVIDENCE_TEST_PROVE="+dir, fmt.Sprintf("EVIDENCE_TEST_BY=%d", w), "GORACE=atexit_sleep_ms=0")
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v: %s", w, err, out)
			}
		})
	}
	chain := &proof.Chain{Dir: dir}
	for w := range provers {
		all.Go(func() {
			for i := range proofsEach {
				if _, err := chain.Append(proofOf(fmt.Sprintf("own%d-%d", w%2, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 { // a reader never sees half a record
			if _, problems, err := proof.ReadProofs(dir); err != nil || problems != nil {
				t.Errorf("reading meanwhile: %v %v", problems, err)
			}
		}
	})
	all.Wait()
	list, problems, err := proof.ReadProofs(dir)
	if want := (provers + 2) * proofsEach; err != nil || problems != nil || len(list) != want {
		t.Errorf("got %d records %v %v, want %d", len(list), problems, err, want)
	}
}

// BenchmarkAppendProof measures what a step of a long run pays for its proof, and what several pay that share one sync.
func BenchmarkAppendProof(b *testing.B) {
	for _, each := range []int{1, 50} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			chain := &proof.Chain{Dir: b.TempDir()}
			for n := 0; n < b.N; n += each {
				var list []proof.Proof
				for i := range each {
					list = append(list, proofOf(fmt.Sprint(n+i)))
				}
				if _, err := chain.Append(list...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
