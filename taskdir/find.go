package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Entry is one directory in a list.
type Entry struct {
	Dir, ID  string
	Task     *Task // nil if Err is set
	Err      error // the error of Load
	Planning bool  // a draft: its planning has not ended
}

// List returns the task directories, including drafts but not archived ones, sorted by name. One that can't be read has its
// error in the entry. If there is no folder for tasks, the list is empty.
func (s Store) List() ([]Entry, error) {
	dirs, err := s.Dirs()
	return s.Entries(dirs), err
}

// IDs returns the names of the directories that List returns, without the drafts. It reads no file in them.
func (s Store) IDs() ([]string, error) {
	dirs, err := s.Dirs()
	ids := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		if id := filepath.Base(dir); id[0] != '.' {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Dirs returns the paths of the directories that List returns. It reads no file in them.
func (s Store) Dirs() ([]string, error) { return s.candidateDirs(s.Tasks()) }

// Entries reads some of Dirs as List does, in their order, several in parallel.
func (s Store) Entries(dirs []string) []Entry { return ParallelMap(dirs, s.readEntry) }

// ListArchived returns the archived tasks, oldest month first.
func (s Store) ListArchived() ([]Entry, error) {
	dirs, err := s.archivedDirs("")
	return s.Entries(dirs), err
}

// candidateDirs returns the paths in folder that could be tasks: directories, and symbolic links, which are to be reported.
func (s Store) candidateDirs(folder string) ([]string, error) {
	rel := s.Rel(folder)
	list, err := durable.ReadDirBelow(s.Root, rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, trellis.UnreadableProblem(rel, err)
	}
	var dirs []string
	for _, e := range list {
		name := e.Name()
		if name == archiveName || name[0] == '.' && !strings.HasPrefix(name, DraftPrefix) {
			continue
		}
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			dirs = append(dirs, filepath.Join(folder, name))
		}
	}
	return dirs, nil
}

// MakeFolder creates the folder for task directories unless it exists. If its path is a file, or a link that leads elsewhere,
// the error is a *trellis.Problem.
func (s Store) MakeFolder() error {
	if err := folderProblem(s); err != nil {
		return err
	}
	return s.Disk.MkdirAll(s.Tasks(), 0o755)
}

// folderProblem returns the problem that keeps that folder from being read. A missing folder is not a problem.
func folderProblem(s Store) error {
	rel := s.Rel(s.Tasks())
	if err := durable.FolderBelow(s.Root, rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return trellis.UnreadableProblem(rel, err)
	}
	return nil
}

// Archived returns the directory in the archive of the task with that name, the newest if there are several; "" if there is
// none. No file in it is read.
func (s Store) Archived(id string) (string, error) {
	if !ValidID(id) {
		return "", nil
	}
	dirs, err := s.archivedDirs(id)
	if len(dirs) == 0 {
		return "", err
	}
	return slices.Max(dirs), err
}

// archivedDirs returns the archived task directories; with an id, those of that name.
func (s Store) archivedDirs(id string) ([]string, error) {
	months, err := s.candidateDirs(filepath.Join(s.Tasks(), archiveName))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, month := range months {
		if id != "" {
			if dir := filepath.Join(month, id); durable.Exists(dir) {
				all = append(all, dir)
			}
			continue
		}
		dirs, err := s.candidateDirs(month)
		if err != nil {
			return nil, err
		}
		all = append(all, dirs...)
	}
	return all, nil
}

func (s Store) readEntry(dir string) Entry {
	e := Entry{Dir: dir, ID: filepath.Base(dir)}
	e.Planning = strings.HasPrefix(e.ID, DraftPrefix)
	if e.Err = s.linkProblem(dir); e.Err == nil {
		e.Task, e.Err = s.Load(dir)
	}
	return e
}

// linkProblem returns a problem if dir is a symbolic link: a task has only one location.
func (s Store) linkProblem(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return nil // Load reports everything else
	}
	return &trellis.Problem{
		File:    s.Rel(dir),
		Message: "is a symbolic link; a task is a real directory in .trellis/tasks",
		Hint:    "move the directory itself here",
	}
}

// AmbiguousError is the error for a name that several tasks have.
type AmbiguousError struct {
	Ref        string
	Candidates []string // directories
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, dir := range e.Candidates {
		names[i] = filepath.Base(dir)
	}
	return fmt.Sprintf("%q is the name of several tasks: %s", e.Ref, strings.Join(names, ", "))
}

// Find returns the directory that ref means: a path (from the current folder or from Root), a directory name, or a task's name.
// Live tasks and drafts come before archived ones. It never leaves .trellis/tasks, not even by symbolic links. A draft that no
// longer exists stands for the task that it became. Errors match ErrNotFound, or are an *AmbiguousError, or the
// *trellis.Problem of that folder.
func (s Store) Find(ref string) (string, error) {
	dir, err := find(s, ref)
	if id, draft := strings.CutPrefix(filepath.Base(ref), DraftPrefix); draft && errors.Is(err, ErrNotFound) {
		if now, err := find(s, filepath.Join(filepath.Dir(filepath.Clean(ref)), id)); err == nil {
			return now, nil
		}
	}
	return dir, err
}

// find is Find without replacing drafts by the tasks that they became.
func find(s Store, ref string) (string, error) {
	if err := folderProblem(s); err != nil {
		return "", err
	}
	name := strings.TrimRight(ref, "/")
	if name == "." || name == ".." || strings.Contains(name, "/") {
		return s.findPath(ref)
	}
	if name == "" || name[0] == '.' && !strings.HasPrefix(name, DraftPrefix) || name == archiveName {
		return "", fmt.Errorf("%w: %q", ErrNotFound, ref)
	}
	for _, dir := range []string{filepath.Join(s.Tasks(), name), filepath.Join(s.Tasks(), DraftPrefix+name)} {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() {
			return dir, nil
		}
	}
	return s.findName(ref, name)
}

func (s Store) findName(ref, name string) (string, error) {
	for _, dirs := range []func() ([]string, error){
		func() ([]string, error) { return s.candidateDirs(s.Tasks()) },
		func() ([]string, error) { return s.archivedDirs("") },
	} {
		list, err := dirs()
		if err != nil {
			return "", err
		}
		hits := s.withName(list, name)
		if len(hits) == 1 {
			return hits[0], s.linkProblem(hits[0])
		}
		if len(hits) > 1 {
			return "", &AmbiguousError{ref, hits}
		}
	}
	return "", fmt.Errorf("%w: %q (`trellis list` shows them)", ErrNotFound, ref)
}

// withName returns the directories that match name: by their whole name, else by the part after the day, else by the name in
// task.json.
func (s Store) withName(dirs []string, name string) []string {
	keep := func(match func(dir string) bool) []string {
		return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return !match(dir) })
	}
	if hits := keep(func(dir string) bool { return filepath.Base(dir) == name }); len(hits) > 0 {
		return hits
	}
	if hits := keep(func(dir string) bool { _, n := SplitID(filepath.Base(dir)); return n == name }); len(hits) > 0 {
		return hits
	}
	var hits []string
	for _, e := range s.Entries(dirs) {
		if e.Err == nil && e.Task.Name == name {
			hits = append(hits, e.Dir)
		}
	}
	return hits
}

func (s Store) findPath(ref string) (string, error) {
	tries := []string{filepath.Join(s.Root, ref)}
	if abs, err := filepath.Abs(ref); err == nil {
		tries = []string{abs, tries[0]}
	}
	for _, path := range tries {
		if dir, ok := s.resolveTaskDir(path); ok {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not a directory of a task in %s", ErrNotFound, ref, s.Rel(s.Tasks()))
}

// resolveTaskDir returns the task directory that path resolves to when all links are followed.
func (s Store) resolveTaskDir(path string) (string, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	tasks, err := filepath.EvalSymlinks(s.Tasks())
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(tasks, real)
	if st, statErr := os.Stat(real); err != nil || statErr != nil || !st.IsDir() {
		return "", false
	}
	parts := strings.Split(rel, string(filepath.Separator))
	live := len(parts) == 1 && parts[0] != archiveName && (parts[0][0] != '.' || strings.HasPrefix(parts[0], DraftPrefix))
	old := len(parts) == 3 && parts[0] == archiveName
	return filepath.Join(s.Tasks(), rel), live || old
}
