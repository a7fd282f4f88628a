package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// causes are the errors of a disk, and how people are told about them.
var causes = map[string]string{"ENOSPC": "no space left on device", "EIO": "input/output error"}

// A disk that is full or broken at any step, once or from then on, ends the command with the error and its place, and
// leaves nothing half-written to be read. When the disk works again, the same command ends like an undisturbed one.
// TestKilledAtEveryStep covers the other half of the spread.
func TestDiskFailsAtEveryStep(t *testing.T) {
	for _, p := range plays {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			spots := half(p.spread(t), 0)
			t.Logf("%d steps, faults at %d of them", len(p.spots), len(spots))
			for i, s := range spots {
				for j, c := range []struct{ cause, stay string }{{"ENOSPC", ""}, {"EIO", "1"}, {"ENOSPC", "1"}, {"EIO", ""}} {
					if full() || j == i%4 {
						p.fail(t, s, c.cause, c.stay)
					}
				}
			}
		})
	}
}

func (p *play) fail(t *testing.T, s spot, cause, stay string) {
	t.Run(fmt.Sprint(s, " ", cause, stay), func(t *testing.T) {
		t.Parallel()
		w := p.world(t)
		e := w.trellis(p.Args, "FAULTS_AT="+s.String(), "FAULTS_DO="+cause, "FAULTS_STAY="+stay, "FAULTS_LOG="+w.path(stepsLog))
		// A watcher reports what the disk interrupted and tries it again; the retry finds that only the sync was left to do.
		told := p.Args[0] == "watch" && strings.Contains(e.Said, causes[cause]) && strings.Contains(e.Said, id+" is in review")
		switch {
		case e.Code == 0 && stay != "" && s.Kind != "syncdir" && !w.missed(s) && !told:
			t.Errorf("it ends well on a disk that fails:\n%s", e.Said)
		case e.Code != 0 && e.Code != 1:
			t.Errorf("exit %d, want 1\n%s", e.Code, e.Said)
		case e.Code == 1 && !(strings.Contains(e.Said, causes[cause]) && strings.Contains(e.Said, named(s, stay))):
			t.Errorf("it does not say what is wrong with %s:\n%s", s.Path, e.Said)
		}
		w.readable()
		if again := w.again(p.Args); again.Code != 0 {
			t.Fatalf("again: exit %d\n%s\nbefore: exit %d\n%s", again.Code, again.Said, e.Code, e.Said)
		}
		p.same(w, 1)
	})
}

// named returns the part of a path that people must be told. With more than one fault the path may be another one.
func named(s spot, stay string) string {
	if stay != "" {
		return "/"
	}
	return filepath.Base(s.Path)
}

// readable checks that no reader finds anything half-written.
func (w *world) readable() {
	w.Helper()
	dir := "repo/.trellis/tasks/" + id + "/"
	if data := w.read(dir + "task.json"); !json.Valid([]byte(data)) {
		w.Errorf("task.json is %q", data)
	}
	if data := w.read(dir + "report.md"); data != "" && !strings.Contains(data, "## Phases") {
		w.Errorf("report.md is half: %q", data)
	}
	if e := w.trellis([]string{"status", id, "--json"}); e.Code != 0 || !json.Valid([]byte(e.Said)) {
		w.Errorf("status: exit %d\n%s", e.Code, e.Said)
	}
}

// A disk that is really full: the repository is on a small file system of its own, which is filled while the agent works.
// Then every write fails, not only those that the program offers to disturb.
func TestDiskIsFull(t *testing.T) {
	const inside = "FAULTS_INSIDE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("unshare", "-Urm", "--", os.Args[0], "-test.run=^TestDiskIsFull$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1", builtProgram+"="+program)
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "--- SKIP") || err != nil && !strings.Contains(string(out), "=== RUN") {
			t.Skipf("no file system can be mounted here: %v\n%s", err, out)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("mounting: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	p := plays[0]
	p.undisturbed(t)
	w := p.lay(openWorld(t, dir))
	filling := strings.Replace(script, "check:\n", "check:\n    - run: [\"test -e ../../../free || cat /dev/zero > ../../../ballast; true\"]\n      answer: fine\n", 1)
	w.fill(map[string]string{"repo/.trellis/rehearsal.yaml": filling})
	e := w.trellis(p.Args)
	if e.Code != 1 || !strings.Contains(e.Said, causes["ENOSPC"]) {
		t.Errorf("on a full disk: exit %d\n%s", e.Code, e.Said)
	}
	t.Logf("%s", e.Said)
	if err := os.Remove(w.path("ballast")); err != nil {
		t.Fatal(err)
	}
	w.fill(map[string]string{"free": ""})
	w.readable()
	if e := w.again(p.Args); e.Code != 0 {
		t.Fatalf("again: exit %d\n%s", e.Code, e.Said)
	}
	w.gone()
	if got := w.git("rev-parse", branch+"^{tree}"); !strings.Contains(p.want, got) {
		t.Errorf("the tree is %s", got)
	}
	if got := w.git("rev-list", "--count", "main.."+branch); got != "1" {
		t.Errorf("%s commits", got)
	}
}
