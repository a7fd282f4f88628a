package commandline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Edge C16: completion works in zsh with and without an earlier compinit.
func TestZshCompletion(t *testing.T) {
	zsh, err := exec.LookPath("zsh")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("there is no zsh on this machine: scripts/setup.sh installs it")
	case err != nil:
		t.Skip("there is no zsh on this machine: scripts/setup.sh installs it")
	}
	script, err := filepath.Abs("completion/zsh")
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "autoload -Uz compinit; compinit -i; "} {
		cmd := exec.Command(zsh, "-f", "-c", before+`source "$1" && print ${_comps[trellis]}`, "zsh", script)
		cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "_trellis\n" {
			t.Errorf("with %q before it: %v\n%s", before, err, out)
		}
	}
}
