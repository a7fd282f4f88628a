package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline/passes"
)

// passRecords knows commands that passed: at base, and on verified commits, at which other tasks begin once they are merged.
type passRecords struct {
	repo        *git.Repo
	environment *fingerprinter
	store       passes.Store
	task        *taskDir
}

// passesAt are the passes on the files of one commit, in the current environment.
type passesAt struct {
	store       passes.Store
	task        string
	tree        string
	environment map[string]string
}

// atHead returns the passes on the commit that is checked out in the worktree of a job.
func (pb *passRecords) atHead(ctx context.Context, j Job) (passesAt, error) {
	head, err := pb.repo.Refs().Head(ctx, j.Worktree)
	if err != nil {
		return passesAt{}, err
	}
	tree, err := pb.repo.Refs().TreeAt(ctx, head)
	if err != nil {
		return passesAt{}, err
	}
	f, err := pb.environment.fingerprint(ctx, j)
	if err != nil {
		return passesAt{}, err
	}
	env := map[string]string{"setup": shortHash([]byte(strings.Join(j.Setup.Run, "\x00")))}
	for name, hash := range f {
		if kind, _, _ := strings.Cut(name, " "); kind == kindProgram || kind == kindNetwork {
			env[name] = hash
		}
	}
	for _, name := range j.Setup.Copy {
		if st, err := os.Stat(filepath.Join(j.Repo, filepath.FromSlash(name))); err == nil {
			env["copy "+name] = shortHash(fmt.Appendf(nil, "%d %d", st.Size(), st.ModTime().UnixNano()))
		}
	}
	return passesAt{pb.store, pb.task.id(), tree, env}, nil
}

func (at passesAt) subject(line string) passes.Subject {
	return passes.Subject{Tree: at.tree, Command: line, Environment: at.environment}
}

// results returns the results of the commands, nil unless all of them passed.
func (at passesAt) results(commands []string) (list []CommandResult, err error) {
	for _, line := range commands {
		p, err := at.store.Find(at.subject(line))
		if err != nil || p == nil {
			return nil, err
		}
		r := CommandResult{Command: line, Seconds: p.Seconds, Sandbox: p.Sandbox, Isolated: p.Isolated, Earlier: true}
		if p.Task != at.task {
			r.RunForTask = p.Task
		}
		list = append(list, r)
	}
	return list, nil
}

// wantsBaselineBeside reports whether the commands of a job run at base beside its first agent. They must not be known to pass
// there, and either the project wants it, or they take long and passed elsewhere, so that they are unlikely to fail here.
func (pb *passRecords) wantsBaselineBeside(ctx context.Context, j Job) (bool, error) {
	if !j.Baseline || len(j.Verify) == 0 || !j.verifiesFresh() {
		return false, nil
	}
	if seconds, err := pb.store.SecondsOf(j.Verify); err != nil || seconds <= quickSeconds && !j.BaselineBeside {
		return false, err
	}
	at, err := pb.atHead(ctx, j)
	if err != nil {
		return false, err
	}
	known, err := at.results(j.Verify)
	return err == nil && len(known) == 0, err
}

// keep remembers results that passed. If it can't, the note says why, and the run goes on.
func (at passesAt) keep(results []CommandResult) (notes []string) {
	for _, r := range results {
		if r.Code != 0 || r.RunForTask != "" {
			continue
		}
		if err := at.store.Keep(at.subject(r.Command), passes.Pass{Task: at.task, Seconds: r.Seconds, Sandbox: r.Sandbox, Isolated: r.Isolated}); err != nil {
			return []string{"that the checks passed is not remembered for other tasks: " + err.Error()}
		}
	}
	return nil
}
