package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A new shell loads the completion that completion install writes, without a start file except for the line that install asks for.
func TestInstalledCompletion(t *testing.T) {
	t.Parallel()
	program, home := realTrellis(t), t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "TERM=dumb"}
	for shell, ask := range map[string][]string{
		// as if Tab were pressed: the loader of bash-completion finds the file by the command's name
		"bash": {"--noprofile", "--norc", "-c", `. /usr/share/bash-completion/bash_completion; __load_completion trellis || _comp_load trellis
			COMP_LINE="trellis obj" COMP_WORDS=(trellis obj) COMP_CWORD=1; _trellis; echo "${COMPREPLY[@]}"`},
		"zsh":  {"-f", "-c", `fpath=($HOME/.local/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -d $HOME/.zcompdump; echo ${_comps[trellis]}`},
		"fish": {"-c", `complete -C "trellis obj"`},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err == nil && shell == "bash" {
				_, err = os.Stat("/usr/share/bash-completion/bash_completion")
			}
			switch {
			case err != nil && os.Getenv("CI") != "":
				t.Fatalf("scripts/setup.sh installs what is missing: %v", err)
			case err != nil:
				t.Skipf("scripts/setup.sh installs what is missing: %v", err)
			}
			install := exec.Command(program, "completion", "install", shell)
			install.Env = env
			if out, err := install.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd := exec.Command(path, ask...)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if want := map[string]string{"bash": "objective", "zsh": "_trellis", "fish": "objective\t"}[shell]; !strings.HasPrefix(string(out), want) {
				t.Errorf("got %q, %v, want %q", out, err, want)
			}
		})
	}
}
