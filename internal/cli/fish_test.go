package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Completion works in a real fish: for commands, flags, names of tasks, values and files.
func TestFishCompletion(t *testing.T) {
	t.Parallel()
	fish, err := exec.LookPath("fish")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("there is no fish on this machine: scripts/setup.sh installs it")
	case err != nil:
		t.Skip("there is no fish on this machine: scripts/setup.sh installs it")
	}
	program := realTrellis(t)
	w := newGitWorld(t, program)
	for _, id := range []string{"02-01-auth", "02-02-cart", "02-03-cart"} {
		w.write(".trellis/tasks/"+id+"/task.json", `{"status": "planning"}`)
	}
	w.write("steps/ok.yaml", "")
	for line, want := range map[string][]string{
		"trellis obj":                                 {"objective"},
		"trellis objective sh":                        {"show"},
		"trellis start --adopt":                       {"--adopt-branch"},
		"trellis start a":                             {"auth"},
		"trellis start 02-0":                          {"02-01-auth", "02-01-bye", "02-02-cart", "02-03-cart"},
		"trellis logs auth --phase deb":               {"debug"},
		"trellis plan --type fro":                     {"frontend"},
		"trellis plan --type=fro":                     {"--type=frontend"},
		"trellis completion ":                         {"bash", "fish", "install", "zsh"},
		"trellis completion install ":                 {"bash", "fish", "zsh"},
		"trellis list --status in_":                   {"in_progress"},
		"trellis edit auth pr":                        {"prd"},
		"trellis config set agents.defau":             {"agents.default"},
		"trellis run steps/o":                         {"steps/ok.yaml"},
		"trellis plan --requirement-file steps/":      {"steps/ok.yaml"},
		"trellis plan --requirement-file=steps/":      {"--requirement-file=steps/ok.yaml"},
		"trellis task add-context auth check steps/o": {"steps/ok.yaml"},
		"trellis --no-such-flag-of-anyone":            nil,
	} {
		cmd := exec.Command(fish, "--no-config", "-c", `trellis completion fish | source; complete -C "$argv[1]"`, line)
		cmd.Dir = w.Dir
		cmd.Env = append(slices.Clone(w.Env), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
		out, err := cmd.Output()
		var got []string
		for l := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			got = append(got, word)
		}
		slices.Sort(got)
		if err != nil && !(want == nil && len(got) == 0) || !slices.Equal(got, want) {
			t.Errorf("%q becomes %q, want %q: %v", line, got, want, err)
		}
	}
}
