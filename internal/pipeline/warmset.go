package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// warmSet is a folder with the warm folders of one setup, and madeFile. A set with its final name is complete: it is made under a
// temporary name and renamed, and renamed again before it is removed.
type warmSet struct{ path string }

// maxWarmSets is how many sets are kept: the ones made last.
const maxWarmSets = 3

// madeFile is the file of a set that describes it. A folder without it is not a set.
const madeFile = "made.json"

// setInfo says what a set was made from.
type setInfo struct {
	Commit  string                `json:"commit"`
	Setup   []string              `json:"setup"`
	Folders map[string]folderSize `json:"folders"` // folders of worktree.warm that setup made
	Whole   bool                  `json:"whole"`   // setup made nothing else, so it need not run where the folders are
	At      time.Time             `json:"at"`
}

// folderSize is the size of a folder. If it differs, the folder has lost something, in a power cut, say.
type folderSize struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// info returns what a set says about itself, nil if the folder is not a set.
func (s warmSet) info() *setInfo {
	data, err := durable.ReadBelow(s.path, madeFile, durable.MaxJournal)
	var made setInfo
	if err != nil || json.Unmarshal(data, &made) != nil || len(made.Folders) == 0 {
		return nil
	}
	return &made
}

// fill copies what setup made in a worktree. It keeps nothing if a file names the worktree: a copy of that file would lead back
// there, where an agent is at work.
func (s warmSet) fill(disk *durable.Disk, j Job, info setInfo) (kept bool, note string, err error) {
	info.Folders = map[string]folderSize{}
	for _, name := range j.Setup.Warm {
		to := filepath.Join(s.path, filepath.FromSlash(name))
		err := copyTree(filepath.Join(j.Worktree, filepath.FromSlash(name)), to)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, "", fmt.Errorf("keeping %s: %w", name, err)
		}
		tied, err := tiedFile(to, j.Worktree, name)
		if err != nil {
			return false, "", fmt.Errorf("looking through %s: %w", name, err)
		}
		if tied != "" {
			return false, fmt.Sprintf("worktree.warm: %s is not kept: %s in it names the worktree that it was made in, or leads out of it", name, tied), nil
		}
		if info.Folders[name], err = measureFolder(to); err != nil {
			return false, "", fmt.Errorf("looking through %s: %w", name, err)
		}
	}
	encoded, err := json.Marshal(info)
	if err != nil {
		return false, "", fmt.Errorf("recording what warm folders were made from: %w", err)
	}
	return len(info.Folders) > 0, "", disk.WriteFile(filepath.Join(s.path, madeFile), append(encoded, '\n'), 0o644)
}

// copyTo copies the folders into a checkout, all of them or none.
func (s warmSet) copyTo(root string, made *setInfo) (copied bool, err error) {
	var there []string
	defer func() {
		if !copied {
			for _, to := range there {
				err = errors.Join(err, os.RemoveAll(to))
			}
		}
	}()
	for name, want := range made.Folders {
		to := filepath.Join(root, filepath.FromSlash(name))
		there = append(there, to)
		err := copyTree(filepath.Join(s.path, filepath.FromSlash(name)), to)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("copying the warm folder %s: %w", name, err)
		}
		if got, err := measureFolder(to); err != nil || got != want {
			return false, err
		}
	}
	return true, nil
}

// discard removes the set, if it exists. Whoever copies it finds nothing of it from then on, never half of it.
func (s warmSet) discard(folder string) error {
	temp, err := os.MkdirTemp(folder, durable.TempPrefix)
	if err != nil {
		return fmt.Errorf("removing old warm folders: %w", err)
	}
	if err := os.Rename(s.path, filepath.Join(temp, "set")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("removing old warm folders: %w", err), os.RemoveAll(temp))
	}
	return os.RemoveAll(temp)
}

func measureFolder(folder string) (a folderSize, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		a.Files++
		if !e.Type().IsRegular() {
			return nil
		}
		st, err := e.Info()
		if err == nil {
			a.Bytes += st.Size()
		}
		return err
	})
	return a, err
}

// shebang is how many bytes at the start of a program may name its interpreter.
const shebang = 4 << 10

// tiedFile returns a file of a folder that is useless in another place, "" if there is none: a link to the worktree from which the
// folder was copied, or to anywhere else outside of a checkout, or a program that names the worktree's path at its start.
func tiedFile(folder, worktree, name string) (tied string, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		is, err := isTied(folder, rel, e, worktree, name)
		if err == nil && is {
			tied = filepath.ToSlash(rel)
			return fs.SkipAll
		}
		return err
	})
	return tied, err
}

func isTied(folder, rel string, e fs.DirEntry, worktree, name string) (bool, error) {
	if e.Type()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(filepath.Join(folder, rel))
		return filepath.IsAbs(to) || !filepath.IsLocal(filepath.Join(filepath.FromSlash(name), filepath.Dir(rel), to)), err
	}
	st, err := e.Info()
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return false, err
	}
	begins, err := durable.ReadHead(folder, rel, shebang)
	return bytes.Contains(begins, []byte(strings.TrimSuffix(worktree, "/")+"/")), err
}
