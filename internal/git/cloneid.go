package git

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// cloneFile names a clone, in git's own folder, which no commit writes and no fetch brings.
const cloneFile = "trellis.id"

// CloneID is a random word for this clone, made when it is first asked for. Another clone, here or on another machine, has
// another; a clone that is moved or copied keeps it. Its worktrees share it.
func (r *Repo) CloneID() (string, error) {
	id, err := r.cloneID()
	if errors.Is(err, fs.ErrNotExist) {
		if err = r.makeCloneID(); err == nil {
			id, err = r.cloneID()
		}
	}
	if err != nil {
		return "", fmt.Errorf("finding out which clone this is: %w", err)
	}
	return id, nil
}

func (r *Repo) cloneID() (string, error) {
	data, err := durable.ReadBelow(r.Common, cloneFile, maxPointer)
	return strings.TrimSpace(string(data)), err
}

// makeCloneID has the file appear whole; that of another process, which was first, stays.
func (r *Repo) makeCloneID() error {
	var word [16]byte
	_, _ = rand.Read(word[:]) // never fails
	temp := filepath.Join(r.Common, cloneFile+"-"+hex.EncodeToString(word[:4]))
	var disk *durable.Disk
	durable.Sweep(r.Common, time.Now()) // what a process that was killed here left
	if err := disk.WriteFile(temp, []byte(hex.EncodeToString(word[:])+"\n"), 0o600); err != nil {
		return err
	}
	if err := disk.Rename(temp, filepath.Join(r.Common, cloneFile)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Remove(temp)
}

// Tracks reports whether git has a file of the main checkout, in the index or below a path of it.
func (r History) Tracks(ctx context.Context, rel string) (bool, error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"ls-files", "-z", "--", ":(top,literal)" + filepath.ToSlash(rel)}})
	return out != "", err
}
