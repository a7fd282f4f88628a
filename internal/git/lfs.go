package git

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// maxLFSPointer is how long a file can be that stands for an object of Git LFS, in bytes.
const maxLFSPointer = 1024

var lfsOID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^oid sha256:([0-9a-f]{64})$`) })

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
	if sum, err := sha256Of(dir, path); err == nil && sum == oid {
		return nil
	}
	object := filepath.Join("lfs", "objects", oid[:2], oid[2:4], oid)
	sum, err := sha256Of(r.Common, object)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at the object of Git LFS of %s: %w", path, err)
	case sum != oid:
		return &DamagedError{Object: oid, Path: path, File: filepath.Join(r.Common, object), LFS: true}
	}
	return nil
}

// sha256Of is that of a regular file below a folder.
func sha256Of(dir, name string) (string, error) {
	f, err := durable.OpenBelow(dir, name, math.MaxInt64)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
