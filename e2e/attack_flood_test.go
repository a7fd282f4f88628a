package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// floods are scripts of agents that produce too much of something. $N is the amount, and the command line of each process has $W.
var floods = []struct {
	name   string
	script string
	few, n int   // $N without and with TRELLIS_SOAK
	check  bool  // the script is part of the work, and runs when the work is checked
	kept   int64 // MiB of output that are kept at most, less than is produced; 0 if it produces none
}{
	{name: "output without an end of line", script: "head -c ${N}000000 /dev/zero | tr '\\0' x", few: 80, n: 1000, kept: 64},
	{name: "errors without an end of line", script: "head -c ${N}000000 /dev/zero | tr '\\0' x >&2", few: 80, n: 1000, kept: 64},
	{name: "output of a check", script: "head -c ${N}000000 /dev/zero | tr '\\0' x >&2", few: 30, n: 1000, check: true, kept: 10},
	{name: "files that git ignores", script: "mkdir .env; cd .env; seq $N | xargs touch", few: 2000, n: 100_000},
	{name: "folders in folders", script: "mkdir .env; cd .env; i=0; while [ $i -lt $N ]; do mkdir d; cd d; i=$((i+1)); done", few: 100, n: 1000},
	{name: "links in circles", script: "ln -s b a; ln -s a b; ln -s . c; mkdir d; ln -s .. d/up; ln -s d/up/d/up/d/up e", few: 1, n: 1},
	{name: "pipes in the place of its results", script: "for f in answer.md result.json session stderr.log stream.jsonl; do rm -f $TRELLIS_RUN_DIR/*/$f $TRELLIS_RUN_DIR/$f; mkfifo $TRELLIS_RUN_DIR/$f; done; mkfifo .env", few: 1, n: 1},
	{name: "processes of processes", script: "bomb() { if [ $1 -gt 0 ]; then bomb $(($1-1)) & bomb $(($1-1)) & fi; exec sleep $W; }; bomb $N & sleep 0.2", few: 4, n: 9},
}

// TestFloods: an agent, or its code, that prints, creates or starts far too much blocks nobody: the task ends, little of the
// output is kept, and none of its processes is left. With TRELLIS_SOAK all floods are tried in all modes, with much larger amounts.
func TestFloods(t *testing.T) {
	t.Parallel()
	for i, f := range floods {
		for _, mode := range modes(t, i) {
			t.Run(f.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				n := f.few
				if soak.Asked() {
					n = f.n
				}
				x := newTarget(t, mode, "")
				word := "3000." + x.Word
				set := fmt.Sprintf("N=%d; W=%s; ", n, word)
				script := "echo '# work' >> greet.sh; " + set + "(" + f.script + "); true"
				if f.check {
					x.write("flood.sh", set+f.script+"\n")
					script = "echo '. ./flood.sh' >> greet.sh"
				}
				x.commit()
				x.write(".trellis/rehearsal.yaml", fmt.Sprintf("roles:\n  implement: [{run: [%q], answer: done}]\n  check: [{answer: fine}]\n"+
					"  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"greet.sh:1\"}]}}]\n", script))
				_, out, errs := x.try(program, "start", victim)
				if !x.delivered(t, victim) {
					t.Errorf("it is not done\n%s", x.said(out+errs))
				}
				x.nobody(map[string]string{word: f.name})
				if kept := size(t, filepath.Join(x.Dir, ".trellis", "tasks", victim, "run")); kept > (f.kept+1)<<20 {
					t.Errorf("%d bytes of it are kept, want %d MiB, and 1 for the rest of the run, at most", kept, f.kept)
				}
			})
		}
	}
}

// size returns the number of bytes of all regular files below dir.
func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			n += st.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	return n
}
