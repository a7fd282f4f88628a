package gittest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Gone makes a test wait at its end for the processes whose working directory is below root, which is removed then: processes of
// git go on for a moment when the program that started them is killed. Call it once root exists. Without /proc it does not wait.
func Gone(t testing.TB, root string) {
	t.Cleanup(func() {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			return // the test removed it
		}
		for end := time.Now().Add(15 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			left := workingBelow(real)
			if len(left) == 0 {
				return
			}
			if time.Now().After(end) {
				t.Errorf("still at work below %s: %q", real, left)
				return
			}
		}
	})
}

// workingBelow returns the command lines of the processes whose working directory is below root. It goes through all processes of
// the machine at the end of most tests.
func workingBelow(root string) (list []string) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if dir, err := os.Readlink("/proc/" + name + "/cwd"); err == nil && strings.HasPrefix(dir, root+"/") {
			line, _ := os.ReadFile("/proc/" + name + "/cmdline")
			list = append(list, string(line))
		}
	}
	return list
}
