package git

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Heads is where the main checkout and the local branches stand at one moment, and how far their logs went. It can be
// kept as JSON.
type Heads struct {
	Branch   string            `json:"branch"` // that is checked out, "" when none is
	Commit   string            `json:"commit"`
	Branches map[string]string `json:"branches"` // commits by name
	Logs     map[string]int64  `json:"logs"`     // bytes, by HEAD or name of a branch
}

// Heads looks. It takes no process in a repository that keeps its refs in files.
func (r Refs) Heads(ctx context.Context) (h Heads, err error) {
	h = Heads{Branches: map[string]string{}, Logs: map[string]int64{}}
	if h.Branch, err = r.branchOf(ctx, r.Common); err != nil {
		return h, err
	}
	if h.Commit, err = r.Head(ctx, r.Main); err != nil && !errors.Is(err, ErrNoCommit) {
		return h, err
	}
	if err = r.eachHead(ctx, func(name, commit string) { h.Branches[name] = commit }); err != nil {
		return h, err
	}
	h.Logs["HEAD"] = r.logSize("HEAD")
	for name := range h.Branches {
		h.Logs[name] = r.logSize(BranchPrefix + name)
	}
	return h, nil
}

// eachHead goes through the local branches.
func (r Refs) eachHead(ctx context.Context, do func(name, commit string)) error {
	list := func(name string, ref *plumbing.Reference) {
		if ref.Type() == plumbing.HashReference {
			do(name, ref.Hash().String())
		}
	}
	if r.readHeads(list) {
		return nil
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", BranchPrefix}})
	for line := range strings.Lines(out) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), " "+BranchPrefix)
		do(name, commit)
	}
	return err
}

// readHeads goes through the local branches of a repository that keeps its refs in files. In another it reports false.
func (r Refs) readHeads(do func(name string, ref *plumbing.Reference)) bool {
	c, err := ReadConfig(r.Common)
	if err != nil || c.extended {
		return false
	}
	refs, err := dotgit.New(folder{dir: r.Common}).Refs()
	if err != nil {
		return false
	}
	for _, ref := range refs {
		name, ok := strings.CutPrefix(ref.Name().String(), BranchPrefix)
		if ok && !strings.HasSuffix(name, ".lock") { // what git has beside a branch while it moves it; none is called so
			do(name, ref)
		}
	}
	return true
}

// logSize is 0 where there is none.
func (r Refs) logSize(ref string) int64 {
	st, err := os.Lstat(filepath.Join(r.Common, "logs", filepath.FromSlash(ref)))
	if err != nil || !st.Mode().IsRegular() {
		return 0
	}
	return st.Size()
}

// Move is a branch, or HEAD, that is not where it was.
type Move struct {
	Ref      string   // HEAD, or the name of a branch
	Was, Now string   // commits; of HEAD the branch, if it is on another
	Said     []string // by its log, oldest first: what moved it
}

// Moved are the moves since h, by name. New branches are none: whoever works makes some.
func (r Refs) Moved(ctx context.Context, h Heads) (list []Move, now Heads, err error) {
	if now, err = r.Heads(ctx); err != nil {
		return nil, now, err
	}
	switch {
	case now.Branch != h.Branch:
		list = append(list, Move{"HEAD", whereIs(h), whereIs(now), r.saidSince("HEAD", h.Logs["HEAD"])})
	case now.Commit != h.Commit && now.Branch == "":
		list = append(list, Move{"HEAD", h.Commit, now.Commit, r.saidSince("HEAD", h.Logs["HEAD"])})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Branches)) {
		if was, at := h.Branches[name], now.Branches[name]; was != at {
			list = append(list, Move{name, was, at, r.saidSince(BranchPrefix+name, h.Logs[name])})
		}
	}
	return list, now, nil
}

// whereIs is where HEAD is: on a branch, or at a commit.
func whereIs(h Heads) string {
	if h.Branch != "" {
		return h.Branch
	}
	return h.Commit
}

// saidSince are the messages that were added to a log since it had that many bytes. One that was cut meanwhile says nothing.
func (r Refs) saidSince(ref string, size int64) (said []string) {
	const long = 1 << 20
	if r.logSize(ref) <= size {
		return nil
	}
	const all = 1 << 40 // whatever it has; only the end is read
	f, err := durable.OpenBelow(filepath.Join(r.Common, "logs"), filepath.FromSlash(ref), all)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return nil
	}
	lines := bufio.NewScanner(io.LimitReader(f, long))
	for lines.Scan() {
		if _, message, ok := strings.Cut(lines.Text(), "\t"); ok {
			said = append(said, message)
		}
	}
	return said
}
