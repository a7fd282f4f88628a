package cluster_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// typed returns the output and the exit code of trellis-cluster for a command line, outside of any repository.
func typed(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), childVar+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Every command documents what it does, what it takes, and how it ends, in both ways in which people ask for help.
func TestHelp(t *testing.T) {
	t.Parallel()
	said, code := typed(t)
	_, list, _ := strings.Cut(said, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	if code != 0 || strings.Count(list, "\n") < 10 {
		t.Fatalf("exit %d\n%s", code, said)
	}
	for line := range strings.Lines(list) {
		name := strings.Fields(line)[0]
		help, code := typed(t, name, "--help")
		if again, _ := typed(t, "help", name); again != help || code != 0 {
			t.Errorf("%s --help: exit %d\n%s\nand help %s says\n%s", name, code, help, name, again)
		}
		for _, part := range []string{"trellis-cluster " + name + " - ", "\nUsage:\n", "\n  --help, -h", "\nExamples:\n  trellis-cluster " + name, "\nExit codes:\n"} {
			if !strings.Contains(help, part) {
				t.Errorf("%s --help lacks %q:\n%s", name, part, help)
			}
		}
	}
}

// A mistyped command line is refused with a suggestion, and the beginning of a word is completed.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"sumbit x":                     "2 trellis: trellis-cluster has no command \"sumbit\"\ntrellis: next: did you mean: trellis-cluster submit\n",
		"serve --paralel 2":            "2 trellis: trellis-cluster serve has no flag --paralel\ntrellis: next: did you mean: --parallel\n",
		"stop":                         "2 trellis: missing argument: trellis-cluster stop TASKDIR\ntrellis: next: trellis-cluster help stop\n",
		"__complete s":                 "0 serve\trun tasks of this repository, until interrupted\nsubmit\tsubmit a task to the machines, or with --plan a requirement\nstart\thave the machines resume a task\nstop\tpause a running task\nstatus\tshow the machines, and who has what since when\n",
		"__complete retry --f":         "0 --fresh\tstart over from the base\n",
		"__complete completion z":      "0 zsh\n",
		"__complete submit --type bac": "0 backend\n",
	} {
		if said, code := typed(t, strings.Fields(args)...); string(rune('0'+code))+" "+said != want {
			t.Errorf("%s: got %d %s, want %s", args, code, said, want)
		}
	}
	if said, code := typed(t, "--version"); code != 0 || !strings.HasPrefix(said, "trellis-cluster ") || strings.Count(said, "\n") != 1 {
		t.Errorf("--version: exit %d\n%s", code, said)
	}
}

// Shells that are installed load the scripts.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, code := typed(t, "completion", shell)
		if code != 0 || !strings.Contains(script, "trellis-cluster __complete") {
			t.Errorf("%s: exit %d\n%s", shell, code, script)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here: its script is not loaded", shell)
			continue
		}
		cmd := exec.Command(program, "-n", "/dev/stdin")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}
