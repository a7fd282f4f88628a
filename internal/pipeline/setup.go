package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// setup makes a checkout ready to work in.
type setup struct {
	place
	commands *commands
	trust    *trustJudge
}

// copyFiles copies files that git does not have, .env say, from the main checkout. If git has them there, the commit that is
// checked out has to be trusted, both before and after copying, since another one may be checked out meanwhile.
func (su *setup) copyFiles(ctx context.Context, j Job) (notes []string, err error) {
	if err := su.trust.checkCopies(ctx, j); err != nil {
		return nil, err
	}
	var copied []string
	for _, name := range j.Setup.Copy {
		to, note, err := copyOne(j.Repo, j, name)
		if err != nil {
			return notes, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		if to != "" {
			copied = append(copied, to)
		}
	}
	if err = su.trust.checkCopies(ctx, j); err != nil {
		for _, to := range copied {
			err = errors.Join(err, os.RemoveAll(to))
		}
	}
	return notes, err
}

// writePointer makes the folder for files that agents read, which hides itself from git, and the pointer that older agents expect.
func (su *setup) writePointer(j Job) error {
	root, err := openWorktree(j.Worktree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{runtimeDir + "/.gitignore", currentTask} { // an agent may have put a pipe there
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("clearing %s: %w", name, err)
		}
	}
	if err := root.WriteFile(runtimeDir+"/.gitignore", []byte("*\n"), 0o644); err != nil {
		return fmt.Errorf("hiding %s: %w", runtimeDir, err)
	}
	return root.WriteFile(currentTask, []byte(su.store.Rel(su.task.dir)+"\n"), 0o644)
}

// runCommands runs the project's own commands that make a fresh worktree ready, by installing dependencies, say.
func (su *setup) runCommands(ctx context.Context, c flow.Call, j Job) error {
	for i, line := range j.Setup.Run {
		res, err := su.commands.run(ctx, c, sandbox.Setup, fmt.Sprintf("setup-%d", i+1), j.Worktree, line, j.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			output, err := su.task.output(res.Output)
			if err != nil {
				return err
			}
			return flow.Fail(string(trellis.HookFailed), "worktree.setup%s: `%s` exited with %d: %s", su.configuredAt(j.Setup.Run), line, res.Code, tail(output, 2<<10))
		}
	}
	return nil
}

// configuredAt returns the file and line where the setup commands of a run are configured, in parentheses, "" if they are no
// longer configured, or the settings can't be read.
func (su *setup) configuredAt(run []string) string {
	files, known := settingsOfProject(su.store.Root)
	if !known {
		return ""
	}
	for _, s := range config.Settings(files) {
		if s.Key == "worktree.setup" && s.File != "" && s.Text() == strings.Join(run, "\n") {
			return fmt.Sprintf(" (%s:%d)", s.File, s.Line)
		}
	}
	return ""
}

// openWorktree opens a worktree, and makes sure that the folder of Trellis in it is a folder.
func openWorktree(worktree string) (*os.Root, error) {
	root, err := os.OpenRoot(worktree)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, flow.Fail(string(trellis.WorktreeFailed), "the worktree %s is gone", worktree)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	for _, name := range []string{".trellis", runtimeDir} {
		st, err := root.Lstat(name)
		if err == nil && !st.IsDir() {
			err = root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("looking at %s of the worktree: %w", name, err), root.Close())
		}
	}
	if err := root.MkdirAll(runtimeDir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("making %s: %w", runtimeDir, err), root.Close())
	}
	return root, nil
}

// copyOne copies a file or folder into the worktree. copied is its new path, "" if it exists already or there is nothing to copy.
func copyOne(folder string, j Job, name string) (copied, note string, err error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leaves the repository", name)
	}
	from, to := filepath.Join(folder, filepath.FromSlash(name)), filepath.Join(j.Worktree, filepath.FromSlash(name))
	if _, err := os.Lstat(to); err == nil {
		return "", "", nil
	}
	if real, err := filepath.EvalSymlinks(from); err == nil && !inside(folder, real) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leads out of the repository", name)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(to)); err == nil && !inside(j.Worktree, real) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: the folder of %s leads out of the worktree", name)
	}
	switch err := copyTree(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return "", "worktree.copy: there is no " + name, nil
	case err != nil:
		return "", "", flow.Fail(string(trellis.HookFailed), "copying %s: %v", name, err)
	}
	return to, "", nil
}

// inside reports whether path, which has no symbolic links, is below root.
func inside(root, path string) bool {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// copyTree copies a file or a folder, which appears at its new path at once and complete.
func copyTree(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(to), durable.TempPrefix+filepath.Base(to))
	if err := os.RemoveAll(temp); err != nil { // left by an interrupted copy
		return err
	}
	if st.IsDir() {
		err = os.CopyFS(temp, os.DirFS(from))
	} else {
		err = copyFile(from, temp, st.Mode().Perm())
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return os.Rename(temp, to)
}

func copyFile(from, to string, mode fs.FileMode) error {
	real, err := filepath.EvalSymlinks(from) // the caller has checked that it is inside
	if err != nil {
		return err
	}
	r, err := durable.OpenBelow(filepath.Dir(real), filepath.Base(real), durable.AnySize)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}
