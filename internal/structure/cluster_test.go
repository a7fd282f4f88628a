package structure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The module in cluster/ depends on this one, and has to require at least the libraries that this one requires.
func TestClusterFollows(t *testing.T) {
	cmd := exec.Command("go", "list", "-mod=readonly", "-deps", "./...")
	cmd.Dir, cmd.Env = filepath.Join(repository(t), "cluster"), append(os.Environ(), "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "updates to go.mod needed"), strings.Contains(string(out), "missing go.sum entry"):
		t.Error("cluster/go.mod lags behind go.mod: cd cluster && go mod tidy")
	case err != nil:
		t.Skipf("its libraries can't be listed here: %v\n%.500s", err, out)
	}
}
