package eval

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Project is a small project for which there are requirements.
type Project struct {
	Name     string            `yaml:"-"`
	Kind     string            `yaml:"kind"`
	Programs []string          `yaml:"programs"` // programs needed to work on it
	Commands [][]string        `yaml:"commands"` // its checks in the order lint, test, build, each with all its spellings
	Files    map[string]string `yaml:"files"`
}

// commonPrograms are the programs that every machine is assumed to have.
var commonPrograms = []string{"awk", "bash", "cat", "cmp", "cut", "diff", "find", "git", "grep", "head", "jq", "ls", "sed", "sh", "sort", "tail", "test", "tr", "uniq", "wc", "xargs"}

// LookPath returns an error unless a program counts as installed: the project's Programs do, and those that every machine has.
// It doesn't check this machine, so that a planner gets the same marks everywhere.
func (p *Project) LookPath(program string) error {
	if slices.Contains(p.Programs, program) || slices.Contains(commonPrograms, program) {
		return nil
	}
	return &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// initScript is a script that makes a folder a repository with all its files in one commit. The commit has the same hash each time.
const initScript = `git init -q -b main --template= . && cat >>.git/config <<'EOF' && git add -A && git commit -q -m 'first commit'
[user]
	name = Trellis Eval
	email = eval@localhost
[commit]
	gpgsign = false
[core]
	autocrlf = false
EOF`

// CreateRepository creates the project's repository in dir, which must not exist. It uses PATH from env, but not the user's git configuration.
func (p *Project) CreateRepository(ctx context.Context, dir string, env []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making the repository of %s: %w", p.Name, err)
		}
	}()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(p.Files[name]), 0o644); err != nil {
			return err
		}
	}
	said := proc.NewCapped(64 << 10)
	clean := proc.Environ(env, []string{"PATH", "TMPDIR", proc.MarkerVar}, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2024-05-01T10:00:00Z", "GIT_COMMITTER_DATE=2024-05-01T10:00:00Z")
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(initScript), Dir: dir, Env: clean, Stdout: said, Stderr: said})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", res.Code, said)
	}
	return err
}
