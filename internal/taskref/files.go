package taskref

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Limits of a state: whoever can push could fill the disks of all others.
const (
	maxFile  = durable.MaxJournal
	maxAll   = 512 << 20
	maxFiles = 50_000
)

// The modes of files in git that a state may have.
const (
	usualMode   = 0o100644
	programMode = 0o100755
)

// kind determines how a file of a task directory is shared.
type kind int

const (
	shared      kind = iota // shared unchanged
	record                  // shared sealed
	transcript              // what an agent was told or wrote: shared sealed, or not at all
	machineOnly             // only for this machine
)

// transcripts are the names below run/ of an agent's input and raw output. A run can continue without them.
var transcripts = []string{"prompt.md", "system.md", "stream.jsonl", "stderr.log", "conversation.json"}

// kindOf returns the kind of a file, by its name. What a command or an agent answered (stdout, *.log, answer.md) is never
// changed: its hash is in records, and may be written there only after it was saved.
func kindOf(name string) kind {
	base, ext := path.Base(name), path.Ext(name)
	below := strings.HasPrefix(name, taskdir.Run+"/")
	switch {
	case strings.Contains("/"+name, "/"+durable.TempPrefix), below && slices.Contains([]string{"heads.json", "refit.json", "session", ".gitignore"}, base), below && (base == "lock" || ext == ".lock"):
		return machineOnly
	case !below && slices.Contains([]string{taskdir.TaskJSON, taskdir.Report, taskdir.PlanLog}, name):
		return record
	case !below || strings.HasPrefix(name, taskdir.Run+"/inputs/") || strings.Contains(name, "/objects/"):
		return shared
	case slices.Contains(transcripts, base):
		return transcript
	case ext == ".json" || ext == ".jsonl":
		return record
	}
	return shared
}

// readTaskFiles returns the current files of a task directory, sorted, except those of this machine only.
func readTaskFiles(dir string) (files []git.TreeFile, err error) {
	left := int64(maxAll)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && file != dir { // just removed
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		f, err := readFile(dir, filepath.ToSlash(rel))
		if err != nil || f == nil {
			return err
		}
		if left -= int64(len(f.Data)); left < 0 || len(files) == maxFiles {
			return fmt.Errorf("%s has more than %d files or %d MB, which is too much to share", dir, maxFiles, maxAll>>20)
		}
		files = append(files, *f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the task directory: %w", err)
	}
	return files, nil
}

// readFile returns nil for a file that is not shared, that was removed, or that is a transcript of excessive size.
func readFile(dir, name string) (*git.TreeFile, error) {
	if kindOf(name) == machineOnly {
		return nil, nil
	}
	f, err := durable.OpenBelow(dir, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrTooLarge) && kindOf(name) == transcript {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file := &git.TreeFile{Path: name, Mode: usualMode}
	if st.Mode()&0o100 != 0 {
		file.Mode = programMode
	}
	if file.Data, err = durable.ReadOpen(f, filepath.Join(dir, name), maxFile); err != nil {
		return nil, err
	}
	return file, checkFile(*file)
}

// checkFiles returns an error for files that no task directory has: whoever can push can have made such a commit.
func checkFiles(files []git.TreeFile) error {
	if len(files) > maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	for _, f := range files {
		if err := checkFile(f); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(f git.TreeFile) error {
	if f.Mode != usualMode && f.Mode != programMode {
		return fmt.Errorf("%q is a link, or a repository, and no file", f.Path)
	}
	odd := func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f }
	if !fs.ValidPath(f.Path) || !utf8.ValidString(f.Path) || strings.ContainsFunc(f.Path, odd) || kindOf(f.Path) == machineOnly {
		return fmt.Errorf("%q is not a name for a file of a task", f.Path)
	}
	for part := range strings.SplitSeq(strings.ToLower(f.Path), "/") {
		if strings.TrimRight(part, ". ") == ".git" || strings.HasPrefix(part, "git~") {
			return fmt.Errorf("%q is not a name for a file of a task", f.Path)
		}
	}
	return nil
}

// filesOf returns the files of a state, sealed.
func (r Remote) filesOf(ctx context.Context, commit string) ([]git.TreeFile, error) {
	files, err := r.Repo.Trees().Files(ctx, commit)
	if err == nil {
		err = checkFiles(files)
	}
	if err == nil {
		err = r.Repo.Trees().Fill(ctx, files, maxFile, maxAll)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state %.12s: %w", commit, err)
	}
	return files, nil
}

// sealFiles returns files in the form for other machines.
func (r Remote) sealFiles(files []git.TreeFile) (list []git.TreeFile) {
	bound := hashesIn(files)
	for _, f := range files {
		if k := kindOf(f.Path); k != transcript || r.Transcripts {
			f.Data = translate(f, bound, r.Places.seal)
			list = append(list, f)
		}
	}
	return list
}

// openFiles returns files of a state in the form for this machine.
func (r Remote) openFiles(files []git.TreeFile) []git.TreeFile {
	bound, list := hashesIn(files), slices.Clone(files)
	for i, f := range list {
		list[i].Data = translate(f, bound, r.Places.open)
	}
	return list
}

// translate returns the content of a file sealed or opened, or unchanged if a hash refers to it.
func translate(f git.TreeFile, bound map[string]bool, by func([]byte, spelling) []byte) []byte {
	sum := sha256.Sum256(f.Data)
	if k := kindOf(f.Path); k != record && k != transcript || bound[hex.EncodeToString(sum[:])] {
		return f.Data
	}
	switch {
	case isJournal(f.Path):
		return journal.Rewrite(f.Data, func(line []byte) []byte { return by(line, inJournal) })
	case strings.HasPrefix(path.Ext(f.Path), ".json"):
		return by(f.Data, inJSON)
	}
	return by(f.Data, inText)
}

func isJournal(name string) bool {
	ok, err := path.Match(taskdir.Run+"/journal*.jsonl", name)
	return ok && err == nil
}

// hashesIn returns all SHA-256 sums in the records of a task, each of which may be that of a file.
func hashesIn(files []git.TreeFile) map[string]bool {
	const long = 2 * sha256.Size
	found := map[string]bool{}
	for _, f := range files {
		if !strings.HasPrefix(path.Ext(f.Path), ".json") || kindOf(f.Path) == transcript {
			continue
		}
		for word := range bytes.FieldsFuncSeq(f.Data, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) }) {
			if len(word) == long {
				found[string(word)] = true
			}
		}
	}
	return found
}
