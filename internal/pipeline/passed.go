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

// passedBefore is what is known of commands that passed: at base, and on what was delivered, which other tasks begin at.
type passedBefore struct {
	repo        *git.Repo
	environment *fingerprinter
	store       passes.Store
	task        *taskDir
}

// passesAt are those on the files of one commit, in the environment of now.
type passesAt struct {
	store       passes.Store
	task        string
	tree        string
	environment map[string]string
}

// at are those on what is checked out in the worktree of a job.
func (pb *passedBefore) at(ctx context.Context, j Job) (passesAt, error) {
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
	env := map[string]string{"setup": brief([]byte(strings.Join(j.Setup.Run, "\x00")))}
	for name, hash := range f {
		if kind, _, _ := strings.Cut(name, " "); kind == ofProgram || kind == ofNetwork {
			env[name] = hash
		}
	}
	for _, name := range j.Setup.Copy {
		if st, err := os.Stat(filepath.Join(j.Repo, filepath.FromSlash(name))); err == nil {
			env["copy "+name] = brief(fmt.Appendf(nil, "%d %d", st.Size(), st.ModTime().UnixNano()))
		}
	}
	return passesAt{pb.store, pb.task.id(), tree, env}, nil
}

func (at passesAt) of(line string) passes.Subject {
	return passes.Subject{Tree: at.tree, Command: line, Environment: at.environment}
}

// results is what the commands said then, nil unless all of them passed.
func (at passesAt) results(commands []string) (list []CommandResult, err error) {
	for _, line := range commands {
		p, err := at.store.Find(at.of(line))
		if err != nil || p == nil {
			return nil, err
		}
		r := CommandResult{Command: line, Seconds: p.Seconds, Sandbox: p.Sandbox, Isolated: p.Isolated, Earlier: true}
		if p.Task != at.task {
			r.Of = p.Task
		}
		list = append(list, r)
	}
	return list, nil
}

// beside reports whether the commands of a job are to run at base beside its first agent: when the project wants that, or when it takes
// long, and they passed at another base, so that it is unlikely that they fail here.
func (pb *passedBefore) beside(ctx context.Context, j Job) (bool, error) {
	if !j.Baseline || len(j.Verify) == 0 || !j.verifiesFresh() {
		return false, nil
	}
	if seconds, err := pb.store.Took(j.Verify); err != nil || seconds <= quick && !j.BaselineBeside {
		return false, err
	}
	at, err := pb.at(ctx, j)
	if err != nil {
		return false, err
	}
	known, err := at.results(j.Verify)
	return err == nil && len(known) == 0, err
}

// keep remembers those that passed. That it can't is no reason to end the run.
func (at passesAt) keep(results []CommandResult) (notes []string) {
	for _, r := range results {
		if r.Code != 0 || r.Of != "" {
			continue
		}
		if err := at.store.Keep(at.of(r.Command), passes.Pass{Task: at.task, Seconds: r.Seconds, Sandbox: r.Sandbox, Isolated: r.Isolated}); err != nil {
			return []string{"that the checks passed is not remembered for other tasks: " + err.Error()}
		}
	}
	return nil
}
