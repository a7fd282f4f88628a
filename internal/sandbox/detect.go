package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Found describes the sandbox of a machine.
type Found struct {
	Path    string `json:"path"` // path of bwrap, "" if it is not installed
	Version string `json:"version"`
	Why     string `json:"why"`  // why it can't be used, "" if it can
	Hint    string `json:"hint"` // how to make it usable
}

// OK reports whether the sandbox can be used.
func (f Found) OK() bool { return f.Why == "" }

func (f Found) String() string { return strings.TrimSpace("bubblewrap " + f.Version) }

// startTimeout is how long bubblewrap may take to start. 5 ms is usual; a machine under load needs longer.
const startTimeout = 30 * time.Second

// Detect determines whether the machine has a sandbox that works, by trying it.
func Detect(ctx context.Context, env []string) (f Found) {
	if runtime.GOOS != "linux" {
		f.Why, f.Hint = "there is no sandbox for "+runtime.GOOS, "run trellis on Linux, for example in a container"
		return f
	}
	if f.Path, _ = proc.LookPath("bwrap", env); f.Path == "" {
		f.Why, f.Hint = "bubblewrap is not installed", "sudo apt install bubblewrap, or what your system calls it"
		return f
	}
	said, err := tryCommand(ctx, env, []string{f.Path, "--version"})
	if err == nil {
		f.Version = strings.TrimPrefix(said, "bubblewrap ")
		err = f.try(ctx, env, append(append([]string{f.Path}, isolationArgs()...), append((&layout{}).mounts(), "--")...))
	}
	if err != nil {
		f.Why, f.Hint = err.Error(), hint(err.Error())
	}
	return f
}

// isolationArgs returns the arguments that isolate a program and drop its capabilities. As root the program keeps the capability that its
// own sandbox needs to create another user namespace; outside of its namespace that is worthless.
func isolationArgs() []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"}
	if os.Geteuid() == 0 {
		args = append(args, "--cap-add", "CAP_SETFCAP")
	}
	return args
}

// try runs a program that does nothing with the launcher.
func (f Found) try(ctx context.Context, env, launcher []string) error {
	_, err := tryCommand(ctx, env, append(launcher[:len(launcher):len(launcher)], f.Path, "--version"))
	return err
}

func tryCommand(ctx context.Context, env, argv []string) (string, error) {
	out := proc.NewCapped(4 << 10)
	res, err := proc.Run(ctx, proc.Command{Argv: argv, Env: environ(env), Stdout: out, Stderr: out, Wall: startTimeout, Grace: time.Second})
	said := strings.TrimSpace(out.String())
	switch {
	case err != nil:
		return "", fmt.Errorf("trying the sandbox: %w", err)
	case res.Code == 0:
		return said, nil
	case said == "":
		return "", fmt.Errorf("bubblewrap exited with %d", res.Code)
	}
	return "", errors.New("bubblewrap can't be used here: " + strings.ReplaceAll(said, "\n", "; "))
}

// Hint returns what helps against an error of Try.
func Hint(err error) string { return hint(err.Error()) }

// hint returns what helps against an error message of bubblewrap.
func hint(said string) string {
	switch {
	case strings.Contains(said, "mount proc"):
		return "a container hides /proc: start it with --security-opt systempaths=unconfined, or trellis outside of it"
	case strings.Contains(said, "loopback"), strings.Contains(said, "RTM_"):
		return "it can't give a program a network of its own here: sandbox_network: [verify, steps] in .trellis/config.yaml lets them have the machine's, and so it does with the roles of agents"
	case strings.Contains(said, "namespace"), strings.Contains(said, "uid map"), strings.Contains(said, "Permission denied"), strings.Contains(said, "not permitted"):
		return "let bwrap make user namespaces: an AppArmor profile for it (Ubuntu 24.04 and newer), sysctl kernel.unprivileged_userns_clone=1 (older Debian), or --security-opt seccomp=unconfined for a container"
	}
	return "read docs/reference/sandbox.md"
}
