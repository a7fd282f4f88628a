package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// RefMove is a change to a ref of a remote.
type RefMove struct {
	Ref string
	To  string // new commit; "" deletes the ref
	Was string // expected commit; "": the ref must not exist
	Any bool   // Was doesn't matter
}

// RefMovedError means that a ref of a remote is not where it was expected. Nothing was pushed.
type RefMovedError struct {
	Remote, Ref string
	Now         string // "": the ref is gone
}

func (e *RefMovedError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("%s of %s was taken away meanwhile; nothing was pushed", e.Ref, e.Remote)
	}
	return fmt.Sprintf("%s of %s was moved to %.12s meanwhile; nothing was pushed", e.Ref, e.Remote, e.Now)
}

// PushRefs moves refs of a remote, all of them or none, within the time limit. No hook of this repository runs, and none of its
// refs changes. It returns a *RefMovedError if one of the refs is not where it was expected; after any other error the refs may
// have been moved, unless the remote refused.
func (r Remotes) PushRefs(ctx context.Context, remote string, limit time.Duration, moves ...RefMove) error {
	push := func() error {
		err := r.pushRefs(ctx, remote, limit, moves)
		if errors.As(err, new(*Error)) {
			err = r.pushRest(ctx, remote, limit, moves, err)
		}
		return err
	}
	err := push()
	if lockContended(err) { // the process that holds the lock is about to move the ref, or was killed
		err = RetryLocked(ctx, r.remoteLocks(ctx, remote, moves), push)
	}
	if moved := (*RefMovedError)(nil); err != nil && !errors.As(err, &moved) {
		return fmt.Errorf("pushing to %s: %w", remote, err)
	}
	return err
}

// remoteLocks returns the locks of Trellis' refs at a remote that is a folder of this machine. A push that is killed leaves them
// there, and no push removes them. A file system shared with other machines is left out: nobody can know whether one of them holds
// a lock.
func (r Remotes) remoteLocks(ctx context.Context, remote string, moves []RefMove) (list []string) {
	addresses, _ := r.Addresses(ctx, remote) // the push reports the error
	for _, address := range addresses {
		dir, err := filepath.EvalSymlinks(AbsFrom(r.repo.Main, strings.TrimPrefix(address, "file://")))
		if err != nil {
			continue // not a folder of this machine
		}
		if kind, err := durable.SharedFS(dir); err != nil || kind != "" {
			continue
		}
		if within := filepath.Join(dir, ".git"); isGitDir(within) {
			dir = within
		}
		for _, m := range moves {
			if strings.HasPrefix(m.Ref, "refs/trellis/") {
				list = append(list, filepath.Join(dir, filepath.FromSlash(m.Ref)+".lock"))
			}
		}
	}
	return list
}

// pushRest finds out why a push failed. If some refs are already where they should be, it pushes the others alone: git does not
// delete a ref that doesn't exist.
func (r Remotes) pushRest(ctx context.Context, remote string, limit time.Duration, moves []RefMove, failed error) error {
	now, err := r.RemoteRefs(ctx, remote, limit, refsOf(moves)...)
	if err != nil {
		return failed // the more useful error
	}
	rest := slices.DeleteFunc(slices.Clone(moves), func(m RefMove) bool { return now[m.Ref] == m.To })
	for _, m := range rest {
		if !m.Any && now[m.Ref] != m.Was {
			return &RefMovedError{remote, m.Ref, now[m.Ref]}
		}
	}
	switch len(rest) {
	case 0:
		return nil
	case len(moves):
		return failed
	}
	return r.pushRefs(ctx, remote, limit, rest)
}

func (r Remotes) pushRefs(ctx context.Context, remote string, limit time.Duration, moves []RefMove) error {
	args := []string{"push", "--porcelain", "--atomic", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"}
	var specs []string
	for _, m := range moves {
		spec := m.To + ":" + m.Ref
		if m.Any && m.To != "" {
			spec = "+" + spec
		}
		if !m.Any {
			args = append(args, "--force-with-lease="+m.Ref+":"+m.Was)
		}
		specs = append(specs, spec)
	}
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, _, err := r.repo.Run(short, Command{Dir: r.repo.Main, Args: slices.Concat(args, []string{"--", remote}, specs), Env: r.credentialEnv(), Write: true, Once: true})
	if failed, ok := errors.AsType[*Error](err); ok {
		failed.Args = append([]string{"push", remote}, refsOf(moves)...)
		failed.Stderr = strings.TrimSpace(failed.Stderr + "\n" + out)
	}
	return timeoutError(ctx, err, limit)
}

func refsOf(moves []RefMove) (list []string) {
	for _, m := range moves {
		list = append(list, m.Ref)
	}
	return list
}

// timeoutError replaces an error by one that names the exceeded limit, unless the caller's own context ended.
func timeoutError(ctx context.Context, err error, limit time.Duration) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it took longer than %v", limit)
	}
	return err
}

// RemoteRefs asks a remote for the commits of refs, given by full name. Refs that it lacks are not in the map.
func (r Remotes) RemoteRefs(ctx context.Context, remote string, limit time.Duration, refs ...string) (map[string]string, error) {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := append([]string{"ls-remote", "--", remote}, refs...)
	out, _, err := r.repo.Run(short, Command{Dir: r.repo.Main, Args: args, Env: r.credentialEnv()})
	if err != nil {
		return nil, timeoutError(ctx, err, limit)
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && slices.Contains(refs, ref) { // git matches the names as suffixes
			found[ref] = sha
		}
	}
	return found, nil
}

// FetchRefs fetches refs of a remote into refs of this repository, and removes those that are gone there, within the time limit.
// Specs are refspecs of git (+refs/a/*:refs/b/*); no other ref changes.
func (r Remotes) FetchRefs(ctx context.Context, remote string, limit time.Duration, specs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--prune", "--no-prune-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap=", "--no-filter", "--end-of-options", remote}
	return r.fetch(ctx, remote, limit, append(args, specs...))
}

// MayPush returns an error if a remote does not allow a push from here. Nothing is pushed; whether its hooks would refuse stays
// unknown.
func (r Remotes) MayPush(ctx context.Context, remote string) error {
	err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Env: r.credentialEnv(), Args: []string{"push", "--quiet", "--dry-run", "--no-verify", "--end-of-options", remote, "HEAD:" + OwnPrefix + "run/may-push"}})
	if err != nil {
		return fmt.Errorf("trying to push to %s: %w", remote, err)
	}
	return nil
}
