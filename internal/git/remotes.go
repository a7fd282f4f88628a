package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Remotes fetches from other repositories and pushes to them.
type Remotes struct{ repo *Repo }

// Addresses returns the URLs that a push to a remote goes to, without credentials.
func (r Remotes) Addresses(ctx context.Context, remote string) ([]string, error) {
	return r.addresses(ctx, remote, Command{Args: []string{"remote", "get-url", "--push", "--all", "--", remote}})
}

// ConfiguredURLs returns the URLs of a remote as written in the configuration, without credentials. People know the remote by these;
// url.<base>.insteadOf is not applied.
func (r Remotes) ConfiguredURLs(ctx context.Context, remote string) ([]string, error) {
	return r.addresses(ctx, remote, Command{Args: []string{"config", "--get-all", "remote." + remote + ".url"}, Accept: []int{1}})
}

// addresses returns the URLs that the command ask prints for a remote, without credentials.
func (r Remotes) addresses(ctx context.Context, remote string, ask Command) ([]string, error) {
	if strings.ContainsAny(remote, ":/") { // branch.<name>.remote may be a URL
		return []string{withoutSecret(remote)}, nil
	}
	ask.Dir = r.repo.Main
	out, err := r.repo.Line(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("looking for the address of %s: %w", remote, err)
	}
	list := strings.Split(out, "\n")
	for i, address := range list {
		list[i] = withoutSecret(address)
	}
	return list, nil
}

// withoutSecret removes user and password from a URL with a password, and from one of http or https also a user alone, maybe a token.
func withoutSecret(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	if _, hasPassword := u.User.Password(); hasPassword || u.Scheme == "https" || u.Scheme == "http" {
		u.User = nil
	}
	return u.String()
}

// Pushed reports whether a commit is recorded as one that was pushed for whose.
func (r Remotes) Pushed(ctx context.Context, whose, commit string) (bool, error) {
	_, err := r.repo.Refs().RevParse(ctx, r.repo.Main, pushedRefs+whose+"/"+commit)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Fetch updates the remote-tracking branches of a remote, within the time limit. With branch names it fetches only those branches,
// whose commits are then available also where they have no remote-tracking branch.
func (r Remotes) Fetch(ctx context.Context, remote string, limit time.Duration, branches ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--end-of-options", remote}
	for _, name := range branches {
		args = append(args, BranchPrefix+name)
	}
	return r.fetch(ctx, remote, limit, args)
}

// fetch runs git fetch with args, again if another fetch was faster.
func (r Remotes) fetch(ctx context.Context, remote string, limit time.Duration, args []string) error {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fetch := func() error {
		return r.repo.Do(short, Command{Dir: r.repo.Main, Write: true, Once: true, Env: r.credentialEnv(), Args: args})
	}
	err := RetryLocked(short, nil, fetch)
	for try := 1; try < 10 && isFetchRace(err); try++ {
		err = RetryLocked(short, nil, fetch)
	}
	if err != nil {
		return fmt.Errorf("fetching from %s: %w", remote, timeoutError(ctx, err, limit))
	}
	return nil
}

// isFetchRace reports whether another fetch moved a branch at the same moment.
func isFetchRace(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.Contains(e.Stderr, "cannot lock ref") && (strings.Contains(e.Stderr, "but expected") || strings.Contains(e.Stderr, "already exists"))
}

// Remotes returns the full names of the remote-tracking branches that exist here for a branch: its configured upstream, and the
// branch of the same name of origin.
func (r Remotes) Remotes(ctx context.Context, branch string) (list []string, err error) {
	if CheckBranchName(branch) != nil {
		return nil, nil
	}
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(upstream)%00%(refname)", BranchPrefix + branch, "refs/remotes/origin/" + branch}})
	for line := range strings.Lines(out) {
		upstream, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if strings.HasPrefix(name, BranchPrefix) {
			name = upstream
		}
		if !strings.HasPrefix(name, "refs/remotes/") || len(list) > 0 && list[0] == name {
			continue
		}
		if _, err := r.repo.Refs().RevParse(ctx, r.repo.Main, name+"^{commit}"); err == nil { // git also lists an upstream that was never fetched
			list = append(list, name)
		}
	}
	return list, err
}

// Remote returns the remote that a branch follows (branch.<name>.remote), else origin, else the only remote; "" if there is none,
// or none can be preferred.
func (r Remotes) Remote(ctx context.Context, branch string) (string, error) {
	name, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--get", "branch." + branch + ".remote"}, Accept: []int{1}})
	if name = strings.TrimSuffix(name, "\n"); err != nil || name != "" && name != "." {
		return name, err
	}
	list, err := r.Names(ctx)
	return preferredRemote(list), err
}

// Names returns the names of all remotes.
func (r Remotes) Names(ctx context.Context) ([]string, error) {
	if c, err := ReadConfig(r.repo.Common); err == nil && len(c.includes) == 0 {
		return slices.Clone(c.remotes), nil
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"remote"}})
	return strings.Fields(out), err
}

// preferredRemote returns origin if it is among the remotes, else the only remote, else "".
func preferredRemote(remotes []string) string {
	switch {
	case slices.Contains(remotes, "origin"):
		return "origin"
	case len(remotes) == 1:
		return remotes[0]
	}
	return ""
}

// RemoteBranches asks a remote for the tips of some of its branches. Branches that it lacks are not in the map.
func (r Remotes) RemoteBranches(ctx context.Context, remote string, names ...string) (map[string]string, error) {
	args := []string{"ls-remote", "--heads", "--", remote}
	for _, n := range names {
		args = append(args, BranchPrefix+n)
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args, Env: r.credentialEnv()})
	if err != nil {
		return nil, err
	}
	tips := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name, is := strings.CutPrefix(ref, BranchPrefix); ok && is && slices.Contains(names, name) { // git matches the names as suffixes
			tips[name] = sha
		}
	}
	return tips, nil
}

// RemoteHead asks a remote for its default branch, "" if it has none.
func (r Remotes) RemoteHead(ctx context.Context, remote string) (string, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"ls-remote", "--symref", "--", remote, "HEAD"}, Env: r.credentialEnv()})
	ref, _, _ := strings.Cut(out, "\t")
	name, is := strings.CutPrefix(ref, "ref: "+BranchPrefix)
	if err != nil || !is {
		return "", err
	}
	return name, nil
}

// DivergedError means that a branch of a remote has commits that Trellis must not replace.
type DivergedError struct {
	Remote, Branch, Tip string // Tip is "" if the branch moved during the push
}

func (e *DivergedError) Error() string {
	if e.Tip == "" {
		return fmt.Sprintf("branch %s of %s was moved by somebody else at that moment; nothing was pushed", e.Branch, e.Remote)
	}
	return fmt.Sprintf("branch %s of %s is at %.12s, which somebody else pushed: it is not written over", e.Branch, e.Remote, e.Tip)
}

// AheadError means that a branch of a remote has the commit already, and on top of it commits that people pushed. Nothing needs to
// be pushed.
type AheadError struct{ Remote, Branch, Tip string }

func (e *AheadError) Error() string {
	return fmt.Sprintf("branch %s of %s moved on to %.12s", e.Branch, e.Remote, e.Tip)
}

// PushOptions describe a push.
type PushOptions struct {
	Dir            string // the checkout in which the user's pre-push hook runs
	Remote, Branch string
	Commit         string
	// Whose selects the refs below refs/trellis/pushed/ that record which commits were pushed to the branch: an amended commit may
	// replace those, never others.
	Whose string
}

// Push makes a branch of a remote point to a commit, and reports whether it had to push for that. It asks the remote first.
// Commits of others are never overwritten: the error is a *DivergedError, or an *AheadError if they have o.Commit in their history
// already. A *HookError means that the pre-push hook refused.
func (r Remotes) Push(ctx context.Context, o PushOptions) (bool, error) {
	tips, err := r.RemoteBranches(ctx, o.Remote, o.Branch)
	if err != nil {
		return false, err
	}
	tip, ours := tips[o.Branch], pushedRefs+o.Whose+"/"
	if tip == o.Commit {
		return false, r.repo.Refs().PruneRefs(ctx, ours, o.Commit)
	}
	if err := r.checkNotAhead(ctx, o, tip); err != nil {
		return false, err
	}
	if err := r.checkReplaceable(ctx, o, tip); err != nil {
		return false, err
	}
	known, err := r.Pushed(ctx, o.Whose, o.Commit)
	if err == nil && !known { // before the push, so that after a kill in between it is known as ours
		err = r.repo.Refs().MoveRef(ctx, ours+o.Commit, o.Commit, "")
	}
	if err != nil {
		return false, err
	}
	if err := r.push(ctx, o, tip); err != nil {
		return false, err
	}
	return true, r.repo.Refs().PruneRefs(ctx, ours, o.Commit)
}

// fetchWall is the time limit for fetching commits from a remote that are unknown here.
const fetchWall = time.Minute

// checkNotAhead returns an *AheadError if the tip of the remote's branch has the commit in its history. A tip that is unknown here is
// fetched.
func (r Remotes) checkNotAhead(ctx context.Context, o PushOptions, tip string) error {
	if tip == "" {
		return nil
	}
	known, err := r.repo.Modules().Has(ctx, tip)
	if err == nil && !known {
		if err = r.Fetch(ctx, o.Remote, fetchWall, o.Branch); err == nil {
			known, err = r.repo.Modules().Has(ctx, tip)
		}
	}
	if err != nil || !known { // if still unknown, the branch moved again
		return err
	}
	ahead, err := r.repo.History().IsAncestor(ctx, o.Commit, tip)
	if err == nil && ahead {
		err = &AheadError{o.Remote, o.Branch, tip}
	}
	return err
}

// HasPushedCommit reports whether tip has a commit that from lacks and that was pushed for whose: others may have seen or made it.
func (r Remotes) HasPushedCommit(ctx context.Context, whose, from, tip string) (bool, error) {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(objectname)", pushedRefs + whose + "/"}})
	if err != nil || out == "" {
		return false, err
	}
	for sha := range strings.SplitSeq(out, "\n") {
		shared, err := r.repo.History().MergeBase(ctx, sha, tip)
		if err != nil {
			return false, err
		}
		if shared == "" {
			continue
		}
		if old, err := r.repo.History().IsAncestor(ctx, shared, from); err != nil || !old {
			return err == nil, err
		}
	}
	return false, nil
}

const pushedRefs = "refs/trellis/pushed/"

// checkReplaceable returns nil if a branch of a remote may go from tip to the commit: the branch doesn't exist, the commit has tip in
// its history, or Trellis pushed tip itself. Otherwise it returns a *DivergedError.
func (r Remotes) checkReplaceable(ctx context.Context, o PushOptions, tip string) error {
	if tip == "" {
		return nil
	}
	if _, err := r.repo.Refs().RevParse(ctx, r.repo.Main, tip+"^{commit}"); errors.Is(err, ErrNotFound) {
		return &DivergedError{o.Remote, o.Branch, tip}
	} else if err != nil {
		return err
	}
	if within, err := r.repo.History().IsAncestor(ctx, tip, o.Commit); err != nil || within {
		return err
	}
	ours, err := r.Pushed(ctx, o.Whose, tip)
	if err == nil && !ours {
		err = &DivergedError{o.Remote, o.Branch, tip}
	}
	return err
}

// push pushes to a branch that must be at tip until then; "" means that it must not exist.
func (r Remotes) push(ctx context.Context, o PushOptions, tip string) error {
	ref := BranchPrefix + o.Branch
	to, err := r.address(ctx, o)
	if err != nil {
		return err
	}
	args := []string{"push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--force-with-lease=" + ref + ":" + tip, "--", to, o.Commit + ":" + ref}
	out, _, err := r.repo.Run(ctx, Command{Dir: o.Dir, Args: args, Env: r.credentialEnv(), Write: true, Hooks: true, Once: true})
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	failed.Args = []string{"push", o.Remote, o.Branch}
	refused := strings.Contains("\n"+out, "\n!\t")
	switch now, lookErr := r.RemoteBranches(ctx, o.Remote, o.Branch); {
	case lookErr == nil && now[o.Branch] == o.Commit:
		return nil // it was done nevertheless
	case lookErr == nil && now[o.Branch] != tip:
		return &DivergedError{Remote: o.Remote, Branch: o.Branch}
	case failed.Code == 1 && !refused && len(r.repo.Hooks().installed(ctx, o.Dir, "pre-push")) > 0:
		return hookError("pre-push", failed)
	}
	failed.Stderr = strings.TrimSpace(failed.Stderr + "\n" + out)
	return failed
}

// address returns the address of a remote for a git command in o.Dir: its name, except where its URL is a path relative to the
// main checkout and o.Dir is another checkout; then the absolute path.
func (r Remotes) address(ctx context.Context, o PushOptions) (string, error) {
	if o.Dir == r.repo.Main {
		return o.Remote, nil
	}
	url, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--get", "remote." + o.Remote + ".url"}, Accept: []int{1}})
	if url = strings.TrimSuffix(url, "\n"); err != nil || !strings.HasPrefix(url, "./") && !strings.HasPrefix(url, "../") {
		return o.Remote, err
	}
	return filepath.Join(r.repo.Main, url), nil
}

// ForgetPushes removes the records of the pushes for whose, once their work is merged, in submodules too.
func (r Remotes) ForgetPushes(ctx context.Context, whose string) error {
	err := r.repo.Refs().PruneRefs(ctx, pushedRefs+whose+"/", "")
	if err == nil {
		err = r.repo.Modules().eachModule(func(sub *Repo) error { return sub.Refs().PruneRefs(ctx, pushedRefs+whose+"/", "") })
	}
	if err != nil {
		return fmt.Errorf("forgetting what was pushed for %s: %w", whose, err)
	}
	return nil
}

// credentialEnv returns the variables in which programs that git asks for a password may find it, in addition to those that every git
// command gets.
func (r Remotes) credentialEnv() (env []string) {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST", "GH_CONFIG_DIR", "GIT_ASKPASS"} {
		if v, ok := r.repo.getenv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
