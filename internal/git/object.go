package git

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// looseCommit returns the tree and the parents of a commit that is a loose object, as recent ones are. It returns errAskGit for others.
func (r *Repo) looseCommit(commit string) (tree string, parents []string, err error) {
	const long = 1 << 20
	if !isHash(commit) {
		return "", nil, errAskGit
	}
	f, err := os.Open(filepath.Join(r.Common, "objects", commit[:2], commit[2:]))
	if err != nil {
		return "", nil, errAskGit
	}
	defer f.Close()
	newHash, _ := r.hashFormat()
	var object strings.Builder
	err = inflate(&object, f, long)
	kind, text, _ := strings.Cut(object.String(), "\x00")
	if err != nil || !strings.HasPrefix(kind, "commit ") || hex.EncodeToString(hashObject("commit", []byte(text), newHash)) != commit {
		return "", nil, errAskGit
	}
	head, _, _ := strings.Cut(text, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "tree":
			tree = value
		case "parent":
			parents = append(parents, value)
		}
	}
	return tree, parents, nil
}

// isHash reports whether the name of a commit is its full hash.
func isHash(name string) bool {
	return (len(name) == 40 || len(name) == 64) && strings.Trim(name, "0123456789abcdef") == ""
}

// hashTree returns the name of the tree of entries in one folder, whose path takes up the first skip bytes of their paths. Because
// an index is sorted, the trees come out sorted, too.
func hashTree(list []entry, skip int, newHash func() hash.Hash) []byte {
	var b bytes.Buffer
	for len(list) > 0 {
		e, n := list[0], 1
		name, _, deeper := strings.Cut(e.path[skip:], "/")
		if !deeper {
			fmt.Fprintf(&b, "%o %s\x00%s", e.mode, name, e.hash)
		} else {
			folder := e.path[:skip+len(name)+1]
			for n < len(list) && strings.HasPrefix(list[n].path, folder) {
				n++
			}
			fmt.Fprintf(&b, "40000 %s\x00%s", name, hashTree(list[:n], len(folder), newHash))
		}
		list = list[n:]
	}
	return hashObject("tree", b.Bytes(), newHash)
}

// hashObject returns the name of an object.
func hashObject(kind string, data []byte, newHash func() hash.Hash) []byte {
	h := newHash()
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return h.Sum(nil)
}

// hashFormat returns the hash function for the object names of a repository, and their length in bytes.
func (r *Repo) hashFormat() (newHash func() hash.Hash, size int) {
	if c, err := ReadConfig(r.Common); err == nil && c.sha256 {
		return sha256.New, sha256.Size
	}
	return sha1.New, sha1.Size
}

// BlobID returns the name of a blob with this content, in a repository whose hashes are as long as like.
func BlobID(data []byte, like string) string {
	if len(like) == hex.EncodedLen(sha256.Size) {
		return hex.EncodeToString(hashObject("blob", data, sha256.New))
	}
	return hex.EncodeToString(hashObject("blob", data, sha1.New))
}

// missingObjects returns those of the objects that the repository does not have, sorted. It doesn't ask remotes for them.
func (r *Repo) missingObjects(ctx context.Context, names []string) ([]string, error) {
	here, err := r.describeObjects(ctx, names)
	list := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { _, ok := here[name]; return ok })
	return list, err
}

// noFetchEnv is an environment in which git doesn't fetch the missing objects of a partial clone.
var noFetchEnv = []string{"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"}

// object describes an object.
type object struct {
	kind string
	size int64
}

// describeObjects describes those of the objects that are in the repository, by name.
func (r *Repo) describeObjects(ctx context.Context, names []string) (map[string]object, error) {
	found := map[string]object{}
	if len(names) == 0 {
		return found, nil
	}
	ask := func(args ...string) (string, error) {
		out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args, Env: noFetchEnv, Stdin: strings.NewReader(strings.Join(names, "\n") + "\n")})
		return out, err
	}
	if c, err := ReadConfig(r.Common); err == nil && c.partial { // git cat-file fails at the first object that only a remote has
		out, err := ask("rev-list", "--no-walk", "--objects", "--no-object-names", "--missing=allow-any", "--ignore-missing", "--stdin")
		if names = strings.Fields(out); err != nil || len(names) == 0 {
			return found, err
		}
	}
	out, err := ask("cat-file", "--batch-check")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 {
			size, _ := strconv.ParseInt(f[2], 10, 64) // git's own number
			found[f[0]] = object{f[1], size}
		}
	}
	return found, err
}

// isLoose reports whether the repository itself has an object as a loose file.
func (r *Repo) isLoose(hash []byte) bool {
	_, err := os.Lstat(looseFile(r.Common, hash))
	return err == nil
}

// looseFile returns the path of an object's loose file, given the common directory.
func looseFile(common string, hash []byte) string {
	name := hex.EncodeToString(hash)
	return filepath.Join(common, "objects", name[:2], name[2:])
}

// lsTree returns the entries of a tree, or of a commit's tree: those at the paths, or all without paths. c says where git runs.
func (r *Repo) lsTree(ctx context.Context, c Command, tree string, options []string, paths ...string) (list []entry, err error) {
	const atOnce = 1000 // an argument list has a limit
	c.Env = append(slices.Clone(c.Env), "GIT_LITERAL_PATHSPECS=1")
	parts := [][]string{nil}
	if len(paths) > 0 {
		parts = slices.Collect(slices.Chunk(paths, atOnce))
	}
	for _, part := range parts {
		c.Args = slices.Concat([]string{"ls-tree", "-z", "--full-tree"}, options, []string{"--end-of-options", tree}, part)
		out, _, err := r.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, line := range splitNull(out) {
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
	}
	return list, nil
}

// Modes of entries that are not files.
const (
	linkMode    = 0o120000
	gitlinkMode = 0o160000
	treeMode    = 0o040000
)

// splitNull splits the output of git with -z.
func splitNull(out string) []string {
	return strings.FieldsFunc(out, func(c rune) bool { return c == 0 })
}
