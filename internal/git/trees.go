package git

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Trees reads stored objects and checks that they, and checkouts of them, are undamaged.
type Trees struct {
	repo   *Repo
	index  Index
	stores ObjectStores
}

// maxLFSPointer is how long a file can be that stands for an object of Git LFS, in bytes.
const maxLFSPointer = 1024

var lfsOID = trellis.Pattern(`(?m)^oid sha256:([0-9a-f]{64})$`)

// lfsObject is the object that a blob stands for, "" when it is no pointer. Of the format see the specification of Git LFS,
// docs/spec.md there.
func lfsObject(text string) string {
	if m := lfsOID().FindStringSubmatch(text); m != nil && strings.HasPrefix(text, "version https://git-lfs.github.com/spec/") {
		return m[1]
	}
	return ""
}

// verifyLFS makes sure that a file which was made of an object of Git LFS has its content, or else that the object has, of which
// git then made something else: ends of lines, say. Where the object is not in the repository, nothing can be said of it.
func (r Trees) verifyLFS(dir, path, oid string) error {
	if _, sum, err := durable.SumBelow(dir, path, math.MaxInt64); err == nil && sum == oid {
		return nil
	}
	object := filepath.Join("lfs", "objects", oid[:2], oid[2:4], oid)
	_, sum, err := durable.SumBelow(r.repo.Common, object, math.MaxInt64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at the object of Git LFS of %s: %w", path, err)
	case sum != oid:
		return &DamagedError{Object: oid, Path: path, File: filepath.Join(r.repo.Common, object), LFS: true}
	}
	return nil
}

// Objects notes how those of the repository are now. With since, those that were changed after it count as changed. With borrowed,
// what it Borrowed at another time counts, and not what it does now.
func (r Trees) Objects(since time.Time, borrowed []string) (*Objects, error) {
	o := &Objects{r: r, folders: map[string]objectFolder{}, borrowed: borrowed}
	seen, err := o.scan()
	if err == nil && borrowed == nil {
		o.borrowed, err = r.stores.alternates()
	}
	if err != nil {
		return nil, err
	}
	if !since.IsZero() {
		maps.DeleteFunc(seen, func(_ string, f objectFile) bool { return f.since >= since.UnixNano() })
	}
	o.seen = seen
	return o, nil
}

// openObject opens a file below the objects, through no link and waiting for nobody.
func (r Trees) openObject(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(r.repo.Common, "objects", name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// sumOf is the checksum at the end of a pack or its index, "" of other files and where it can't be read.
func (r Trees) sumOf(name string, size int64) string {
	_, length := r.repo.hashes()
	if !strings.HasSuffix(name, ".pack") && !strings.HasSuffix(name, ".idx") || size < int64(length) {
		return ""
	}
	f, err := r.openObject(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := make([]byte, length)
	if _, err := f.ReadAt(sum, size-int64(length)); err != nil {
		return ""
	}
	return string(sum)
}

// summed reports whether a pack or its index still is what the checksum at its end says.
func (r Trees) summed(name string) bool {
	f, err := r.openObject(name)
	if err != nil {
		return false
	}
	defer f.Close()
	newHash, length := r.repo.hashes()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < int64(length) {
		return false
	}
	h := newHash()
	_, err = io.CopyN(h, f, st.Size()-int64(length))
	return err == nil && string(h.Sum(nil)) == r.sumOf(name, st.Size())
}

// verifyObjectFile makes sure of a file that appeared or was changed.
func (r Trees) verifyObjectFile(ctx context.Context, name string, asked map[string]bool) error {
	folder, file := filepath.Split(name)
	var args []string
	switch {
	case len(folder) == len("00/"):
		return r.verifyLoose(strings.TrimSuffix(folder, "/") + file)
	case strings.HasSuffix(file, ".pack"), strings.HasSuffix(file, ".idx"):
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".pack"), ".idx")
		if _, err := os.Stat(filepath.Join(r.repo.Common, "objects", base+".idx")); err != nil {
			return nil // git reads no pack without it
		}
		args = []string{"verify-pack", "--", filepath.Join(r.repo.Common, "objects", base+".idx")}
	case strings.HasPrefix(file, "multi-pack-index") && filepath.Ext(file) != ".rev" && filepath.Ext(file) != ".bitmap":
		args = []string{"multi-pack-index", "verify"}
	case strings.Contains(name, "commit-graph"):
		args = []string{"commit-graph", "verify"}
	}
	if args == nil || asked[strings.Join(args, " ")] {
		return nil
	}
	asked[strings.Join(args, " ")] = true
	err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: args, Write: true}) // which may take long
	const wrong, fatal = 1, 128
	if failed, ok := errors.AsType[*Error](err); ok && (failed.Code == wrong || failed.Code == fatal) {
		if _, gone := os.Stat(filepath.Join(r.repo.Common, "objects", name)); gone != nil {
			return gone
		}
		return &DamagedError{Object: name + " (" + strings.TrimSpace(failed.Stderr) + ")"} // never to be removed: the history is in it
	}
	return err
}

// verifyLoose makes sure that a loose object is what its name says.
func (r Trees) verifyLoose(name string) error {
	newHash, _ := r.repo.hashes()
	h, path := newHash(), filepath.Join(name[:2], name[2:])
	f, err := r.openObject(path)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer f.Close()
		err = inflate(h, f, math.MaxInt64)
	}
	if err != nil || hex.EncodeToString(h.Sum(nil)) != name {
		return &DamagedError{Object: name, File: filepath.Join(r.repo.Common, "objects", path)}
	}
	return nil
}

// inflate writes what a loose object holds: its kind, its size, its content, which may have so many bytes at most.
func inflate(to io.Writer, f *os.File, most int64) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, fs.ErrInvalid)
	}
	z, err := zlib.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	head, err := in.ReadString(0)
	if err != nil {
		return err
	}
	var kind string
	var size int64
	if _, err := fmt.Sscanf(head, "%s %d\x00", &kind, &size); err != nil || size > most {
		return errors.Join(err, fs.ErrInvalid)
	}
	if _, err := io.WriteString(to, head); err != nil {
		return err
	}
	if _, err := io.CopyN(to, in, size); err != nil {
		return err
	}
	_, err = in.ReadByte()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, fs.ErrInvalid)
}

// goneObjects says what was removed and is in no other file.
func (r Trees) goneObjects(ctx context.Context, gone []string) (string, error) {
	var names []string
	packs := 0
	for _, name := range gone {
		switch folder, file := filepath.Split(name); {
		case len(folder) == len("00/"):
			names = append(names, strings.TrimSuffix(folder, "/")+file)
		case strings.HasSuffix(file, ".pack"):
			packs++
		}
	}
	if left, err := filepath.Glob(filepath.Join(r.repo.Common, "objects", "pack", "*.pack")); packs > 0 && err == nil && len(left) == 0 {
		return fmt.Sprintf("packs were deleted in git's objects (%d): `git fsck --full` says what is missing", packs), nil
	}
	if len(names) == 0 {
		return "", nil
	}
	missing, err := r.repo.missing(ctx, names)
	if len(missing) == 0 {
		return "", err
	}
	const few = 3
	return fmt.Sprintf("objects of git were deleted (%d: %s): `git fsck --full` says what lacks them; `git fetch --refetch` gets what a remote has", len(missing), strings.Join(missing[:min(few, len(missing))], ", ")), err
}

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
		what, path = e.Object+", "+e.Path+",", trellis.ShellWord(e.Path)
	}
	switch {
	case e.LFS:
		return fmt.Sprintf("the object %s of Git LFS is not what its name says: remove it (`rm -f %s`), and get it again by `git lfs fetch`, or by `git add` where you still have the file", what, trellis.ShellWord(e.File))
	case e.File == "":
		return fmt.Sprintf("git's object %s is not what its name says: `git fsck --full` says where it is; put that file aside and get what it had again by `git fetch --refetch`, or clone anew", what)
	}
	return fmt.Sprintf("git's object %s is not what its name says: remove it (`rm -f %s`), and get it again by `git fetch --refetch`, or by `git hash-object -w %s` where you still have it", what, trellis.ShellWord(e.File), path)
}

// damaged is the error of an object.
func (r Trees) damaged(object, path string) error {
	e := &DamagedError{Object: object, Path: path}
	if hash, err := hex.DecodeString(object); err == nil && len(hash) > 0 && r.repo.isLoose(hash) {
		e.File = filepath.Join(r.repo.Common, "objects", object[:2], object[2:])
	}
	return e
}

// verifyCheckout makes sure that a checkout which was just made has the files of the commit that it is to have, by hashing them:
// else a *DamagedError. Files that git, or a hook, made otherwise than they are kept are believed as long as what is kept is right.
// The files are then known.
func (r Trees) verifyCheckout(ctx context.Context, dir, commit string) error {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return err
	}
	newHash, _ := r.repo.hashes()
	list, err := r.index.entries(ctx, dir, gitDir)
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
	r.repo.seen.learn(dir, list, started)
	return nil
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
	if tree, _, err := r.repo.loose(commit); err == nil {
		return tree, nil
	}
	text, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "commit", commit}})
	if err != nil {
		return "", err
	}
	newHash, _ := r.repo.hashes()
	if hex.EncodeToString(nameOf("commit", []byte(text), newHash)) != commit {
		return "", r.damaged(commit, "")
	}
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(first, "tree "), nil
}

// listTree are the files of a tree, all of whose folders are what their names say.
func (r Trees) listTree(ctx context.Context, tree string) (list []entry, err error) {
	list, err = r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, tree, []string{"-r"})
	newHash, _ := r.repo.hashes()
	if err != nil || hex.EncodeToString(treeOf(list, 0, newHash)) != tree {
		return nil, errors.Join(r.damagedTree(ctx, tree, ""), err)
	}
	return list, nil
}

// damagedTree finds out which of the trees below one is not what its name says.
func (r Trees) damagedTree(ctx context.Context, tree, path string) error {
	text, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "tree", tree}})
	newHash, size := r.repo.hashes()
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

// verifyBlobs makes sure that the blobs of entries are what their names say.
func (r Trees) verifyBlobs(ctx context.Context, dir string, list []entry) error {
	if len(list) == 0 {
		return nil
	}
	var names strings.Builder
	for _, e := range list {
		fmt.Fprintf(&names, "%x\n", e.hash)
	}
	wrong, err := r.catFiles(ctx, names.String(), func(in *bufio.Reader) error { return r.readBlobs(in, dir, list) })
	return cmp.Or(wrong, err)
}

// readBlobs reads what git says of the blobs of entries, whose files in dir are made of them.
func (r Trees) readBlobs(in *bufio.Reader, dir string, list []entry) error {
	newHash, _ := r.repo.hashes()
	for _, e := range list {
		size, ok := blobSize(in)
		if !ok {
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
