package agentstest

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Carrying returns the processes that have the marker of a run in their environment, except dead ones.
func Carrying(t testing.TB, marker string) []string {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return carryingPS(t, marker)
	}
	want := []byte(proc.MarkerVar + "=" + marker + "\x00")
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, want) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.ReplaceAll(string(command), "\x00", " "))
	}
	return found
}

// carryingPS does what Carrying does, on systems without /proc.
func carryingPS(t testing.TB, marker string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, proc.MarkerVar+"="+marker) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// AtWork returns the number of processes that the tool of [Works] started, in the run with the marker.
func AtWork(t testing.TB, marker string) int {
	n := 0
	for _, p := range Carrying(t, marker) {
		if strings.Contains(p, "sleep 30") && !strings.Contains(p, "setsid") {
			n++
		}
	}
	return n
}

// WorkScript is the shell command of [Works]: two processes that leave the session in which they begin, and a third that
// the shell waits for.
const WorkScript = "setsid sleep 3000 & setsid sleep 3001 & sleep 3002"

// tree returns the files below dir with their sizes, except git's own.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			files = append(files, path+" "+strconv.FormatInt(info.Size(), 10))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
