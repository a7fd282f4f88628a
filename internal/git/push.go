package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Remote is the remote that a branch is followed on (branch.<name>.remote), else origin, else the only one there is;
// "" when there is none, or nobody can tell.
func (r Remotes) Remote(ctx context.Context, branch string) (string, error) {
	name, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", "--get", "branch." + branch + ".remote"}, Accept: []int{1}})
	if name = strings.TrimSuffix(name, "\n"); err != nil || name != "" && name != "." {
		return name, err
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"remote"}})
	if err != nil || out == "" {
		return "", err
	}
	list := strings.Split(out, "\n")
	switch {
	case slices.Contains(list, "origin"):
		return "origin", nil
	case len(list) == 1:
		return list[0], nil
	}
	return "", nil
}

// RemoteBranches asks a remote for the tips of some of its branches. Those that it has not are not in the map.
func (r Remotes) RemoteBranches(ctx context.Context, remote string, names ...string) (map[string]string, error) {
	args := []string{"ls-remote", "--heads", "--", remote}
	for _, n := range names {
		args = append(args, BranchPrefix+n)
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args, Env: r.signIn()})
	if err != nil {
		return nil, err
	}
	tips := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name, is := strings.CutPrefix(ref, BranchPrefix); ok && is && slices.Contains(names, name) { // git takes the names for endings
			tips[name] = sha
		}
	}
	return tips, nil
}

// RemoteHead asks a remote for the branch that it begins with, "" when it has none.
func (r Remotes) RemoteHead(ctx context.Context, remote string) (string, error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"ls-remote", "--symref", "--", remote, "HEAD"}, Env: r.signIn()})
	ref, _, _ := strings.Cut(out, "\t")
	name, is := strings.CutPrefix(ref, "ref: "+BranchPrefix)
	if err != nil || !is {
		return "", err
	}
	return name, nil
}

// DivergedError says that a branch of a remote holds commits that are not ours to replace.
type DivergedError struct {
	Remote, Branch, Tip string // Tip is "" when it moved while it was pushed
}

func (e *DivergedError) Error() string {
	if e.Tip == "" {
		return fmt.Sprintf("branch %s of %s was moved by somebody else at that moment; nothing was pushed", e.Branch, e.Remote)
	}
	return fmt.Sprintf("branch %s of %s is at %.12s, which somebody else pushed: it is not written over", e.Branch, e.Remote, e.Tip)
}

// AheadError says that a branch of a remote has the commit already, and others on top of it that people pushed. Nothing is
// missing there.
type AheadError struct{ Remote, Branch, Tip string }

func (e *AheadError) Error() string {
	return fmt.Sprintf("branch %s of %s went on to %.12s", e.Branch, e.Remote, e.Tip)
}

// PushOptions say what is pushed where.
type PushOptions struct {
	Dir            string // the checkout in which the user's pre-push hook runs
	Remote, Branch string
	Commit         string
	// Whose names the refs below refs/trellis/pushed/ that remember which commits were pushed to the branch: those
	// may be replaced by an amended one, others never.
	Whose string
}

// Push makes a branch of a remote be at a commit, and reports whether it had to be pushed for that. It looks first.
// Commits of others are never written over: a *DivergedError names them, an *AheadError those that have ours in their history
// already. *HookError is the pre-push hook's no.
func (r Remotes) Push(ctx context.Context, o PushOptions) (bool, error) {
	tips, err := r.RemoteBranches(ctx, o.Remote, o.Branch)
	if err != nil {
		return false, err
	}
	tip, ours := tips[o.Branch], pushedRefs+o.Whose+"/"
	if tip == o.Commit {
		return false, r.Refs().PruneRefs(ctx, ours, o.Commit)
	}
	if err := r.within(ctx, o, tip); err != nil {
		return false, err
	}
	if err := r.replaceable(ctx, o, tip); err != nil {
		return false, err
	}
	if _, err := r.Refs().RevParse(ctx, r.Main, ours+o.Commit); errors.Is(err, ErrNotFound) { // before it is pushed: a kill in between leaves it known as ours
		err = r.Refs().MoveRef(ctx, ours+o.Commit, o.Commit, "")
		if err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if err := r.push(ctx, o, tip); err != nil {
		return false, err
	}
	return true, r.Refs().PruneRefs(ctx, ours, o.Commit)
}

// fetchWall is the time that a remote has to tell of commits that are not known here.
const fetchWall = time.Minute

// within is an *AheadError when the tip of the remote's branch has the commit in its history. One that is not known here is
// asked for.
func (r Remotes) within(ctx context.Context, o PushOptions, tip string) error {
	if tip == "" {
		return nil
	}
	known, err := r.Modules().Has(ctx, tip)
	if err == nil && !known {
		if err = r.Fetch(ctx, o.Remote, fetchWall, o.Branch); err == nil {
			known, err = r.Modules().Has(ctx, tip)
		}
	}
	if err != nil || !known { // else it was moved once more
		return err
	}
	ahead, err := r.History().IsAncestor(ctx, o.Commit, tip)
	if err == nil && ahead {
		err = &AheadError{o.Remote, o.Branch, tip}
	}
	return err
}

// Shown reports whether tip has a commit that from has not and that was pushed for whose: others may have seen it, or made
// it.
func (r Remotes) Shown(ctx context.Context, whose, from, tip string) (bool, error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(objectname)", pushedRefs + whose + "/"}})
	if err != nil || out == "" {
		return false, err
	}
	for sha := range strings.SplitSeq(out, "\n") {
		shared, err := r.History().MergeBase(ctx, sha, tip)
		if err != nil {
			return false, err
		}
		if shared == "" {
			continue
		}
		if old, err := r.History().IsAncestor(ctx, shared, from); err != nil || !old {
			return err == nil, err
		}
	}
	return false, nil
}

const pushedRefs = "refs/trellis/pushed/"

// replaceable is nil when a branch of a remote may go from tip to the commit: it isn't there, the commit has tip in its
// history, or tip is what we pushed ourselves.
func (r Remotes) replaceable(ctx context.Context, o PushOptions, tip string) error {
	if tip == "" {
		return nil
	}
	if _, err := r.Refs().RevParse(ctx, r.Main, tip+"^{commit}"); errors.Is(err, ErrNotFound) {
		return &DivergedError{o.Remote, o.Branch, tip}
	} else if err != nil {
		return err
	}
	if within, err := r.History().IsAncestor(ctx, tip, o.Commit); err != nil || within {
		return err
	}
	_, err := r.Refs().RevParse(ctx, r.Main, pushedRefs+o.Whose+"/"+tip)
	if errors.Is(err, ErrNotFound) {
		return &DivergedError{o.Remote, o.Branch, tip}
	}
	return err
}

// push pushes to a branch that is to be at tip until then, "" being not there.
func (r Remotes) push(ctx context.Context, o PushOptions, tip string) error {
	ref := BranchPrefix + o.Branch
	to, err := r.address(ctx, o)
	if err != nil {
		return err
	}
	args := []string{"push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--force-with-lease=" + ref + ":" + tip, "--", to, o.Commit + ":" + ref}
	out, _, err := r.Run(ctx, Command{Dir: o.Dir, Args: args, Env: r.signIn(), Write: true, Hooks: true, Once: true})
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	failed.Args = []string{"push", o.Remote, o.Branch}
	refused := strings.Contains("\n"+out, "\n!\t")
	switch now, lookErr := r.RemoteBranches(ctx, o.Remote, o.Branch); {
	case lookErr == nil && now[o.Branch] == o.Commit:
		return nil // it was done all the same
	case lookErr == nil && now[o.Branch] != tip:
		return &DivergedError{Remote: o.Remote, Branch: o.Branch}
	case failed.Code == 1 && !refused && len(r.Hooks().hooks(ctx, o.Dir, "pre-push")) > 0:
		return &HookError{"pre-push", strings.TrimSpace(failed.Stderr)}
	}
	failed.Stderr = strings.TrimSpace(failed.Stderr + "\n" + out)
	return failed
}

// address is what a remote is called in a checkout: its name, or where that is a path from the main checkout, and the
// checkout another one, the whole path.
func (r Remotes) address(ctx context.Context, o PushOptions) (string, error) {
	if o.Dir == r.Main {
		return o.Remote, nil
	}
	url, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", "--get", "remote." + o.Remote + ".url"}, Accept: []int{1}})
	if url = strings.TrimSuffix(url, "\n"); err != nil || !strings.HasPrefix(url, "./") && !strings.HasPrefix(url, "../") {
		return o.Remote, err
	}
	return filepath.Join(r.Main, url), nil
}

// PruneRefs removes what is remembered of a branch besides the commit that it is at now, if any.
func (r Refs) PruneRefs(ctx context.Context, ours, commit string) error {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(refname) %(objectname)", ours}})
	if err != nil || out == "" {
		return err
	}
	for line := range strings.SplitSeq(out, "\n") {
		ref, sha, _ := strings.Cut(line, " ")
		if sha == commit {
			continue
		}
		own := []string{filepath.Join(r.Common, filepath.FromSlash(ref)+".lock")}
		err := RetryLocked(ctx, own, func() error {
			_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"update-ref", "-d", "--end-of-options", ref, sha}, Write: true, Once: true})
			return err
		})
		if _, gone := r.RevParse(ctx, r.Main, ref); err != nil && !errors.Is(gone, ErrNotFound) {
			return err
		}
	}
	return nil
}

// ForgetPushes removes what is remembered of the pushes of one whose work is merged, in submodules too.
func (r Remotes) ForgetPushes(ctx context.Context, whose string) error {
	err := r.Refs().PruneRefs(ctx, pushedRefs+whose+"/", "")
	if err == nil {
		err = r.Modules().eachModule(func(sub *Repo) error { return sub.Refs().PruneRefs(ctx, pushedRefs+whose+"/", "") })
	}
	if err != nil {
		return fmt.Errorf("forgetting what was pushed for %s: %w", whose, err)
	}
	return nil
}

// signIn are the variables by which programs that git asks for a password may know one, besides those that all of
// git's commands get.
func (r Remotes) signIn() (env []string) {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST", "GH_CONFIG_DIR", "GIT_ASKPASS"} {
		if v, ok := r.getenv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
