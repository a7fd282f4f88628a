package proof_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/proof"
)

// Reading a file of any bytes ends without a panic, and a record that is accepted is spelled byte for byte as we would
// spell it. A record with any texts verifies once it is written.
func FuzzProofs(f *testing.F) {
	dir := f.TempDir()
	if _, err := (&proof.Chain{Dir: dir}).Append(proofOf("a")); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, proof.ProofsFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, "make", 0, int64(3))
	f.Add(whole[:40], "a\x00\xff\u2028\\u2029<&>", -1, int64(0))
	f.Add(append(bytes.Clone(whole), whole...), "", 1<<40, int64(1)<<60)
	f.Add([]byte("{\"v\":2}\n[[[]]]\n\nnull\n{\"began\":\"\"}"), "{{x}}", 7, int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, command string, exit int, size int64) {
		fuzzFile(t, data)
		fuzzRecord(t, command, exit, size)
	})
}

func fuzzFile(t *testing.T, data []byte) {
	dir := t.TempDir()
	setProofs(t, dir, string(data))
	list, problems, err := proof.ReadProofs(dir)
	if err != nil {
		t.Fatal(err)
	}
	var same []byte
	for _, p := range list {
		same = append(same, proof.ProofLine(p)...)
	}
	if len(problems) == 0 && !bytes.Equal(same, data) {
		t.Errorf("%q is believed, and spelled %q", data, same)
	}
	a := verify(t, dir, proof.ExpectedState{Task: task, Plan: planHash, Run: fstest.MapFS{}})
	if a.OK() && len(problems) > 0 || a.Overall != "" && len(list) == 0 {
		t.Errorf("%q: got %+v, and problems %+v", data, a, problems)
	}
}

func fuzzRecord(t *testing.T, command string, exit int, size int64) {
	dir := t.TempDir()
	p := proofOf("a")
	p.Command, p.Exit, p.Stdout = command, exit, proof.Digest{SHA256: sha(command), Bytes: size}
	list, err := (&proof.Chain{Dir: dir}).Append(p)
	if size < 0 {
		if err == nil {
			t.Errorf("a size of %d was accepted", size)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := list[0]
	if utf8.ValidString(command) && got.Command != command || got.Exit != exit || got.Stdout.Bytes != size {
		t.Errorf("got %+v of %+v", got, p)
	}
	a := verify(t, dir, proof.ExpectedState{Task: task, Plan: planHash, Steps: []proof.Step{{Path: "a", Hash: p.StepHash, Check: true}}})
	if !a.OK() || (a.Overall == got.Hash) != (exit == 0) {
		t.Errorf("got %+v of %+v", a, got)
	}
}
