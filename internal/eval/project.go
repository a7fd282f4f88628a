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

// Project is a small project that requirements are about.
type Project struct {
	Name     string            `yaml:"-"`
	Kind     string            `yaml:"kind"`
	Programs []string          `yaml:"programs"` // what it is worked on with
	Commands [][]string        `yaml:"commands"` // its checks in the order lint, test, build, each in all its spellings
	Files    map[string]string `yaml:"files"`
}

// everyday are programs that every machine is taken to have.
var everyday = []string{"awk", "bash", "cat", "cmp", "cut", "diff", "find", "git", "grep", "head", "jq", "ls", "sed", "sh", "sort", "tail", "test", "tr", "uniq", "wc", "xargs"}

// LookPath says whether a program counts as installed: those that the project is worked on with, and those
// that every machine has. It does not look at this machine, so that a planner has the same marks everywhere.
func (p *Project) LookPath(program string) error {
	if slices.Contains(p.Programs, program) || slices.Contains(everyday, program) {
		return nil
	}
	return &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// lay is the script that makes a repository with one commit of what is in a folder. The commit is the
// same each time.
const lay = `git init -q -b main --template= . && cat >>.git/config <<'EOF' && git add -A && git commit -q -m 'first commit'
[user]
	name = Trellis Eval
	email = eval@localhost
[commit]
	gpgsign = false
[core]
	autocrlf = false
EOF`

// Lay makes the project's repository in dir, which must not exist. PATH is taken from env; the settings
// of whoever runs it are not.
func (p *Project) Lay(ctx context.Context, dir string, env []string) (err error) {
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
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(lay), Dir: dir, Env: clean, Stdout: said, Stderr: said})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", res.Code, said)
	}
	return err
}
