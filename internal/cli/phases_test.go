package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Edge C16: what a log has can be asked for.
func TestPhases(t *testing.T) {
	known := phases()
	for _, name := range []string{"implement", "check", "verify", "debug", "accept", "evaluate", "research", "taskspec", "plan", "judge", "baseline", "commit", "deliver", "script", "survey"} {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no phase: %v", name, known)
		}
	}
}

// Edge C16: zsh completes also where nothing has called compinit.
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
