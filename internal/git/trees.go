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
type Trees struct{ repo *Repo }

// maxLFSPointer is the maximum size of a Git LFS pointer file, in bytes.
const maxLFSPointer = 1024

var lfsOID = trellis.Pattern(`(?m)^oid sha256:([0-9a-f]{64})$`)

// lfsObject returns the name of the object that a blob points to, "" if the blob is not a pointer. For the format see the
// specification of Git LFS, docs/spec.md there.
func lfsObject(text string) string {
	if m := lfsOID().FindStringSubmatch(text); m != nil && strings.HasPrefix(text, "version https://git-lfs.github.com/spec/") {
		return m[1]
	}
	return ""
}

// verifyLFS checks that a file made from a Git LFS object has its content, or else that the object itself is undamaged: git may
// have converted the file, its line ends for example. If the object is not in the repository, nothing can be checked.
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

// Objects records the current state of the repository's object files. Files that were changed at since or later count as changed,
// unless since is zero. If borrowed is not nil, it replaces the current alternates; see [Objects.Alternates].
func (r Trees) Objects(since time.Time, borrowed []string) (*Objects, error) {
	o := &Objects{trees: r, folders: map[string]objectFolder{}, borrowed: borrowed}
	seen, err := o.scan()
	if err == nil && borrowed == nil {
		o.borrowed, err = r.repo.ObjectStores().alternates()
	}
	if err != nil {
		return nil, err
	}
	if !since.IsZero() {
		maps.DeleteFunc(seen, func(_ string, f objectFile) bool { return f.changed >= since.UnixNano() })
	}
	o.seen = seen
	return o, nil
}

// openObject opens a file below the objects folder without following a link and without blocking.
func (r Trees) openObject(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(r.repo.Common, "objects", name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// storedChecksum returns the checksum at the end of a pack or pack index, "" for other files and for those that can't be read.
func (r Trees) storedChecksum(name string, size int64) string {
	_, length := r.repo.hashFormat()
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

// matchesChecksum reports whether a pack or pack index matches the checksum at its end.
func (r Trees) matchesChecksum(name string) bool {
	f, err := r.openObject(name)
	if err != nil {
		return false
	}
	defer f.Close()
	newHash, length := r.repo.hashFormat()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < int64(length) {
		return false
	}
	h := newHash()
	_, err = io.CopyN(h, f, st.Size()-int64(length))
	return err == nil && string(h.Sum(nil)) == r.storedChecksum(name, st.Size())
}

// verifyObjectFile checks an object file that is new or changed. asked holds the commands that ran already: each checks all files.
func (r Trees) verifyObjectFile(ctx context.Context, name string, asked map[string]bool) error {
	folder, file := filepath.Split(name)
	var args []string
	switch {
	case len(folder) == len("00/"):
		return r.verifyLoose(strings.TrimSuffix(folder, "/") + file)
	case strings.HasSuffix(file, ".pack"), strings.HasSuffix(file, ".idx"):
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".pack"), ".idx")
		if _, err := os.Stat(filepath.Join(r.repo.Common, "objects", base+".idx")); err != nil {
			return nil // git ignores a pack without an index
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
	err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: args, Write: true}) // for the longer time limit
	const wrong, fatal = 1, 128
	if failed, ok := errors.AsType[*Error](err); ok && (failed.Code == wrong || failed.Code == fatal) {
		if _, gone := os.Stat(filepath.Join(r.repo.Common, "objects", name)); gone != nil {
			return gone
		}
		return &DamagedError{Object: name + " (" + strings.TrimSpace(failed.Stderr) + ")"} // without File: it must not be removed, it holds history
	}
	return err
}

// verifyLoose checks that the content of a loose object matches its name.
func (r Trees) verifyLoose(name string) error {
	newHash, _ := r.repo.hashFormat()
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

// inflate writes a loose object without compression: its kind, size and content, which may have at most most bytes.
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

// goneObjects describes the removed objects that are in no other file, "" if there are none.
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
	missing, err := r.repo.missingObjects(ctx, names)
	if len(missing) == 0 {
		return "", err
	}
	const few = 3
	return fmt.Sprintf("objects of git were deleted (%d: %s): `git fsck --full` says what lacks them; `git fetch --refetch` gets what a remote has", len(missing), strings.Join(missing[:min(few, len(missing))], ", ")), err
}

// DamagedError means that an object of the repository is missing, or that its content doesn't match its name, which git does not
// check at a checkout.
type DamagedError struct {
	Object string
	Path   string // file that has it as content, "" for other objects
	File   string // file that stores it, "" if unknown
	LFS    bool   // a Git LFS object, whose name is its SHA-256
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
		return fmt.Sprintf("git's object %s is not what its name says: `git fsck --full` says where it is; put that file aside and get what it had again by `git fetch --refetch`, or clone again", what)
	}
	return fmt.Sprintf("git's object %s is not what its name says: remove it (`rm -f %s`), and get it again by `git fetch --refetch`, or by `git hash-object -w %s` where you still have it", what, trellis.ShellWord(e.File), path)
}

// damagedError returns the *DamagedError for an object.
func (r Trees) damagedError(object, path string) error {
	e := &DamagedError{Object: object, Path: path}
	if hash, err := hex.DecodeString(object); err == nil && len(hash) > 0 && r.repo.isLoose(hash) {
		e.File = filepath.Join(r.repo.Common, "objects", object[:2], object[2:])
	}
	return e
}

// verifyCheckout checks that a new checkout has the files of its commit, by hashing them, and returns a *DamagedError otherwise.
// Where git or a hook made a file differ from its blob, only the blob is checked. The stat data of the files are cached.
func (r Trees) verifyCheckout(ctx context.Context, dir, commit string) error {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return err
	}
	newHash, _ := r.repo.hashFormat()
	list, err := r.repo.Index().entries(ctx, dir, gitDir)
	if err != nil {
		return err
	}
	tree, err := r.treeOfCommit(ctx, commit)
	if err != nil {
		return err
	}
	if hex.EncodeToString(hashTree(list, 0, newHash)) != tree { // a hook may have added something
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
	r.repo.seen.recordStats(dir, list, started)
	return nil
}

// VerifyTrees checks that a commit and all its trees match their names, and returns a *DamagedError otherwise. Git itself does not
// hash the trees below the top one again, and compares trees by name.
func (r Trees) VerifyTrees(ctx context.Context, commit string) error {
	tree, err := r.treeOfCommit(ctx, commit)
	if err == nil {
		_, err = r.listTree(ctx, tree)
	}
	return err
}

// treeOfCommit returns the tree of a commit, after checking that the commit matches its name.
func (r Trees) treeOfCommit(ctx context.Context, commit string) (string, error) {
	if tree, _, err := r.repo.looseCommit(commit); err == nil {
		return tree, nil
	}
	text, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "commit", commit}})
	if err != nil {
		return "", err
	}
	newHash, _ := r.repo.hashFormat()
	if hex.EncodeToString(hashObject("commit", []byte(text), newHash)) != commit {
		return "", r.damagedError(commit, "")
	}
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(first, "tree "), nil
}

// listTree returns the files of a tree, after checking that the tree and all trees below it match their names.
func (r Trees) listTree(ctx context.Context, tree string) (list []entry, err error) {
	list, err = r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, tree, []string{"-r"})
	newHash, _ := r.repo.hashFormat()
	if err == nil && hex.EncodeToString(hashTree(list, 0, newHash)) == tree {
		return list, nil
	}
	if damaged := r.damagedTreeError(ctx, tree, ""); damaged != nil || err != nil {
		return nil, errors.Join(damaged, err)
	}
	return list, nil // git would write these trees in another way: another program left an empty one among them, or a zero before a mode
}

// damagedTreeError returns an error for the tree, at or below the given one, that doesn't match its name.
func (r Trees) damagedTreeError(ctx context.Context, tree, path string) error {
	text, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "tree", tree}})
	newHash, size := r.repo.hashFormat()
	if err != nil || hex.EncodeToString(hashObject("tree", []byte(text), newHash)) != tree {
		return r.damagedError(tree, path)
	}
	for text != "" {
		about, rest, _ := strings.Cut(text, "\x00")
		mode, name, ok := strings.Cut(about, " ")
		if !ok || len(rest) < size {
			break
		}
		if strings.TrimLeft(mode, "0") == "40000" {
			if err := r.damagedTreeError(ctx, hex.EncodeToString([]byte(rest[:size])), filepath.Join(path, name)); err != nil {
				return err
			}
		}
		text = rest[size:]
	}
	return nil
}

// hashAll hashes the files of a checkout, sets the stat data of the entries, and returns the entries with files of other content.
func hashAll(ctx context.Context, dir string, list []entry, newHash func() hash.Hash) (other []entry, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next, workers := make(chan int), runtime.GOMAXPROCS(0)
	for range workers {
		all.Go(func() {
			h, buffer := newHash(), make([]byte, 64<<10)
			for i := range next {
				same, hashErr := list[i].compareFile(dir, h, buffer)
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

// verifyBlobs checks that the blobs of entries match their names.
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

// readBlobs checks git's output of the blobs of entries, from which the files in dir were made.
func (r Trees) readBlobs(in *bufio.Reader, dir string, list []entry) error {
	newHash, _ := r.repo.hashFormat()
	for _, e := range list {
		size, ok := blobSize(in)
		if !ok {
			return r.damagedError(hex.EncodeToString(e.hash), e.path)
		}
		var text bytes.Buffer // content of a blob that may be an LFS pointer
		h := newHash()
		to := io.Writer(h)
		if size <= maxLFSPointer {
			to = io.MultiWriter(h, &text)
		}
		fmt.Fprintf(h, "blob %d\x00", size)
		if _, err := io.CopyN(to, in, size); err != nil || !bytes.Equal(h.Sum(nil), e.hash) {
			return r.damagedError(hex.EncodeToString(e.hash), e.path)
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
