package structure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxTracked is a size in bytes that no file of source or documentation needs. A program, which `go build` leaves beside the
// source, has tens of megabytes, and every clone would carry it forever.
const maxTracked = 256 << 10

func TestFloorPlanHoldsSourceAlone(t *testing.T) {
	root := repository(t)
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is not a checkout of git, so that nothing says which files belong to it: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if st, err := os.Lstat(filepath.Join(root, name)); err == nil && st.Size() > maxTracked {
			t.Errorf("%s has %d bytes: what is built is not committed (git rm --cached %s)", name, st.Size(), name)
		}
	}
}
