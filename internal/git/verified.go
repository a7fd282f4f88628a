package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DamagedError says that an object of the repository is missing, or has other content than its name says: git does not look when
// it checks files out.
type DamagedError struct {
	Object string
	Path   string // of which file it is the content, "" for others
	File   string // that it stands in, "" when that is not known
	LFS    bool   // it is one of Git LFS, whose name is its SHA-256
}

func (e *DamagedError) Error() string {
	what, path := e.Object, "FILE"
	if e.Path != "" {
		what, path = e.Object+", "+e.Path+",", e.Path
	}
	switch {
	case e.LFS:
		return fmt.Sprintf("the object %s of Git LFS is not what its name says: remove it (`rm -f %s`), and get it again by `git lfs fetch`, or by `git add` where you still have the file", what, e.File)
	case e.File == "":
		return fmt.Sprintf("git's object %s is not what its name says: `git fsck --full` says where it is; put that file aside and get what it had again by `git fetch --refetch`, or clone anew", what)
	}
	return fmt.Sprintf("git's object %s is not what its name says: remove it (`rm -f %s`), and get it again by `git fetch --refetch`, or by `git hash-object -w %s` where you still have it", what, e.File, path)
}

// damaged is the error of an object.
func (r Trees) damaged(object, path string) error {
	e := &DamagedError{Object: object, Path: path}
	if hash, err := hex.DecodeString(object); err == nil && len(hash) > 0 && r.Index().isLoose(hash) {
		e.File = filepath.Join(r.Common, "objects", object[:2], object[2:])
	}
	return e
}

// verifyCheckout makes sure that a checkout which was just made has the files of the commit that it is to have, by hashing them:
// else a *DamagedError. Files that git, or a hook, made otherwise than they are kept are believed as long as what is kept is right.
// The files are then known.
func (r Trees) verifyCheckout(ctx context.Context, dir, commit string) error {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return err
	}
	newHash, size := r.hashes()
	list, err := entriesOf(filepath.Join(gitDir, "index"), size)
	if errors.Is(err, errAskGit) {
		list, err = r.Index().askEntries(ctx, dir)
	}
	if err != nil {
		return err
	}
	tree, err := r.treeOfCommit(ctx, commit)
	if err != nil {
		return err
	}
	if hex.EncodeToString(treeOf(list, 0, newHash)) != tree { // a hook may have added something
		if list, err = r.listTree(ctx, tree); err != nil {
			return err
		}
	}
	started := time.Now()
	other, err := hashAll(ctx, dir, list, newHash)
	if err == nil {
		err = r.verifyBlobs(ctx, dir, other)
	}
	if err != nil {
		return err
	}
	r.seen.learn(dir, list, started)
	return nil
}

// verifyHead makes sure of a checkout that was just made, and removes one that is not as its commit.
func (r Trees) verifyHead(ctx context.Context, path string) error {
	head, err := r.Refs().Head(ctx, path)
	if err == nil {
		err = r.verifyCheckout(ctx, path, head)
	}
	if errors.As(err, new(*DamagedError)) {
		err = errors.Join(err, r.Worktrees().unregister(ctx, path))
	}
	return err
}

// VerifyTrees makes sure that a commit and all its trees are what their names say, else a *DamagedError. Git itself does not hash
// those below the first again, and compares by them.
func (r Trees) VerifyTrees(ctx context.Context, commit string) error {
	tree, err := r.treeOfCommit(ctx, commit)
	if err == nil {
		_, err = r.listTree(ctx, tree)
	}
	return err
}

// treeOfCommit is the tree that a commit names, of a commit that is what its name says.
func (r Trees) treeOfCommit(ctx context.Context, commit string) (string, error) {
	if tree, _, err := r.History().loose(commit); err == nil {
		return tree, nil
	}
	text, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "commit", commit}})
	if err != nil {
		return "", err
	}
	newHash, _ := r.hashes()
	if hex.EncodeToString(nameOf("commit", []byte(text), newHash)) != commit {
		return "", r.damaged(commit, "")
	}
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(first, "tree "), nil
}

// listTree are the files of a tree, all of whose folders are what their names say.
func (r Trees) listTree(ctx context.Context, tree string) (list []entry, err error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"ls-tree", "-r", "-z", "--full-tree", tree}})
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(about) // mode, kind, hash
		if !ok || len(f) != 3 {
			continue
		}
		mode, modeErr := strconv.ParseUint(f[0], 8, 32)
		hash, hashErr := hex.DecodeString(f[2])
		if modeErr != nil || hashErr != nil {
			return nil, fmt.Errorf("reading git ls-tree: unexpected %q", line)
		}
		list = append(list, entry{path: path, mode: uint32(mode), hash: hash})
	}
	newHash, _ := r.hashes()
	if err != nil || hex.EncodeToString(treeOf(list, 0, newHash)) != tree {
		return nil, errors.Join(r.damagedTree(ctx, tree, ""), err)
	}
	return list, nil
}

// damagedTree finds out which of the trees below one is not what its name says.
func (r Trees) damagedTree(ctx context.Context, tree, path string) error {
	text, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "tree", tree}})
	newHash, size := r.hashes()
	if err != nil || hex.EncodeToString(nameOf("tree", []byte(text), newHash)) != tree {
		return r.damaged(tree, path)
	}
	for text != "" {
		about, rest, _ := strings.Cut(text, "\x00")
		mode, name, ok := strings.Cut(about, " ")
		if !ok || len(rest) < size {
			break
		}
		if mode == "40000" {
			if err := r.damagedTree(ctx, hex.EncodeToString([]byte(rest[:size])), filepath.Join(path, name)); err != nil {
				return err
			}
		}
		text = rest[size:]
	}
	return nil
}

// hashAll hashes the files of a checkout, notes in the entries how they look, and returns those that have other content.
func hashAll(ctx context.Context, dir string, list []entry, newHash func() hash.Hash) (other []entry, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next, workers := make(chan int), runtime.GOMAXPROCS(0)
	for range workers {
		all.Go(func() {
			h, buffer := newHash(), make([]byte, 64<<10)
			for i := range next {
				same, hashErr := list[i].isIn(dir, h, buffer)
				if same && hashErr == nil {
					continue
				}
				mu.Lock()
				if err = errors.Join(err, hashErr); hashErr == nil {
					other = append(other, list[i])
				}
				mu.Unlock()
			}
		})
	}
	for i := range list {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	return other, errors.Join(err, context.Cause(ctx))
}

// Kinds of entries.
const (
	linkMode    = 0o120000
	gitlinkMode = 0o160000
)

// isIn reports whether a checkout has an entry's content, and notes how the file looks, nil for what is no file with that content.
func (e *entry) isIn(dir string, h hash.Hash, buffer []byte) (bool, error) {
	e.stat = nil
	if e.mode == gitlinkMode || e.more&skipped != 0 {
		return true, nil
	}
	path := filepath.Join(dir, e.path)
	h.Reset()
	if e.mode == linkMode {
		target, err := os.Readlink(path)
		fmt.Fprintf(h, "blob %d\x00%s", len(target), target)
		return err == nil && bytes.Equal(h.Sum(nil), e.hash), nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false, err
	}
	fmt.Fprintf(h, "blob %d\x00", st.Size())
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, buffer); err != nil {
		return false, err
	}
	if !bytes.Equal(h.Sum(nil), e.hash) {
		return false, nil
	}
	e.stat = statOf(st, e.mode)
	return true, nil
}

// statOf is how a file looks, as git writes it down.
func statOf(st fs.FileInfo, mode uint32) []byte {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	changed, b := changedAt(sys), make([]byte, 0, statSize)
	for _, v := range []int64{changed.Unix(), int64(changed.Nanosecond()), st.ModTime().Unix(), int64(st.ModTime().Nanosecond()),
		int64(sys.Dev), int64(sys.Ino), int64(mode), int64(sys.Uid), int64(sys.Gid), st.Size()} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// verifyBlobs makes sure that the blobs of entries are what their names say.
func (r Trees) verifyBlobs(ctx context.Context, dir string, list []entry) error {
	if len(list) == 0 {
		return nil
	}
	var names strings.Builder
	for _, e := range list {
		fmt.Fprintf(&names, "%x\n", e.hash)
	}
	in, out := io.Pipe()
	found := make(chan error, 1)
	go func() {
		err := r.readBlobs(bufio.NewReader(in), dir, list)
		found <- errors.Join(err, in.CloseWithError(err)) // so that git ends, too
	}()
	_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(names.String()), Stdout: out})
	out.Close()
	if wrong := <-found; wrong != nil {
		return wrong
	}
	return err
}

// readBlobs reads what git says of the blobs of entries, whose files in dir are made of them.
func (r Trees) readBlobs(in *bufio.Reader, dir string, list []entry) error {
	newHash, _ := r.hashes()
	for _, e := range list {
		line, err := in.ReadString('\n')
		var size int64
		var name string
		if n, scanErr := fmt.Sscanf(line, "%s blob %d\n", &name, &size); err != nil || scanErr != nil || n != 2 {
			return r.damaged(hex.EncodeToString(e.hash), e.path)
		}
		var text bytes.Buffer // of what may be a pointer
		h := newHash()
		to := io.Writer(h)
		if size <= maxLFSPointer {
			to = io.MultiWriter(h, &text)
		}
		fmt.Fprintf(h, "blob %d\x00", size)
		if _, err := io.CopyN(to, in, size); err != nil || !bytes.Equal(h.Sum(nil), e.hash) {
			return r.damaged(hex.EncodeToString(e.hash), e.path)
		}
		if oid := lfsObject(text.String()); oid != "" {
			if err := r.verifyLFS(dir, e.path, oid); err != nil {
				return err
			}
		}
		if _, err := in.Discard(1); err != nil {
			return err
		}
	}
	return nil
}
