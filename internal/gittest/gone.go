package gittest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Gone has a test end no sooner than the processes whose working directory is below root, which is removed then: what git does
// for a program goes on for a moment when the program is killed. It is called after root was made. Where there is no /proc nobody is
// waited for.
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

// workingBelow are the processes whose working directory is below another directory, as their command lines. It is looked for at
// the end of most tests, among all processes of the machine.
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
