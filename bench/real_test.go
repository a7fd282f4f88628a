package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withPrograms returns a bench whose programs are built.
func withPrograms(t *testing.T) *bench {
	b := &bench{log: io.Discard, dir: t.TempDir()}
	trellis := b.programs(t)
	if err := b.prepare(trellis, trellis); err != nil {
		t.Fatal(err)
	}
	return b
}

// The times of a project's tasks are reported for both sides, and setup does no more than the warm folders leave to it.
func TestProject(t *testing.T) {
	b := withPrograms(t)
	p := project{name: "tiny", folder: t.TempDir(), setup: "mkdir -p made; head -c 2000000 /dev/zero > made/it", warm: []string{"made"}, check: "test -s made/it", change: "echo more > more.txt"}
	if err := os.WriteFile(filepath.Join(p.folder, ".gitignore"), []byte("made/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.measureProject(p, 1, 2); err != nil {
		t.Fatal(err)
	}
	got := map[string]row{}
	for _, r := range b.rows {
		got[r.name] = r
	}
	for _, of := range []string{"before: ", ""} {
		for what, runs := range map[string]string{"1 task": "2", "2 tasks, 2 at once": "3"} {
			of := of + "tiny, " + what
			for _, name := range []string{"from ready to review", "checks, " + runs + " runs", "one run of the checks", "neither setup nor checks at work", "disk beside the repository in the end"} {
				if r := got[of+": "+name]; len(r.samples) == 0 || r.samples[0] <= 0 {
					t.Errorf("%s: %s: got %v of %v", of, name, r, b.rows)
				}
			}
		}
		if r := got[of+"tiny, 1 task: setup, 1 runs"]; len(r.samples) != 1 {
			t.Errorf("%s: setup: got %v", of, b.rows)
		}
		if r := got[of+"tiny, 1 task: disk beside the repository in the end"]; len(r.samples) == 1 && (r.samples[0] < 3.8 || r.samples[0] > 10) {
			t.Errorf("%s: 2 MB in a worktree and in a warm set: got %v MB", of, r.samples)
		}
	}
}

// A side that can't run a project, and a project that can't be fetched, are reported as rows with the reason.
func TestProjectThatIsNotMeasured(t *testing.T) {
	b := withPrograms(t)
	p := project{name: "tiny", folder: t.TempDir(), check: "true", change: "echo more > more.txt"}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'unknown  setting' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.before = broken
	if err := b.measureProject(p, 1); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := table(&out, b.rows); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.Contains(said, "before: tiny, 1 task") || !strings.Contains(said, "not measured: running "+broken+" watch --once: exit status 1 unknown setting") {
		t.Errorf("got:\n%s", said)
	}
}
