package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/taskdir"
)

// inputs are the copies of what people wrote, by hash, below run/inputs. Phases read only these.
type inputs struct {
	place
	bundles map[string]*plan.Bundle
	mu      sync.Mutex
}

func (is *inputs) folder(hash string) string { return filepath.Join(is.task.runDir, "inputs", hash) }

// freeze writes the files of a snapshot to run/inputs/<hash>.
func (is *inputs) freeze(k *inputSnapshot) error {
	for name, err := range k.unread {
		return fmt.Errorf("taking in %s: %w", name, err)
	}
	if _, err := os.Stat(is.folder(k.hash)); err == nil {
		return nil
	}
	return is.writeFolder(is.folder(k.hash), k.texts)
}

// writeFolder makes a folder with these files, completely or not at all, even across a power cut. Only the run itself calls it,
// from one place at a time: a partial folder was left by a process that was killed.
func (is *inputs) writeFolder(dir string, texts map[string][]byte) error {
	temp := filepath.Join(filepath.Dir(dir), durable.TempPrefix+filepath.Base(dir))
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("clearing run/inputs: %w", err)
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("making a folder in run/inputs: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if err := is.task.disk.WriteFile(filepath.Join(temp, name), texts[name], 0o600); err != nil {
			return errors.Join(fmt.Errorf("freezing %s: %w", name, err), os.RemoveAll(temp))
		}
	}
	if err := is.task.disk.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return os.RemoveAll(temp)
}

// freezePlan freezes the plan of a snapshot with the files that it calls, and returns the hash of them all.
func (is *inputs) freezePlan(k *inputSnapshot) (*plan.Plan, string, error) {
	b := k.plan
	if b == nil {
		return nil, "", k.planErr
	}
	text := k.texts[taskdir.Plan]
	dir := is.folder(b.Hash)
	if _, err := os.Stat(filepath.Join(dir, taskdir.Plan)); err == nil { // plan.json is written last
		return rootPlan(b), b.Hash, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("freezing the plan: %w", err)
	}
	if err := b.Save(dir, is.task.disk); err != nil {
		return nil, "", err
	}
	return rootPlan(b), b.Hash, is.task.disk.WriteFile(filepath.Join(dir, taskdir.Plan), text, 0o600)
}

// Bundle returns the frozen plan with the given hash.
func (is *inputs) Bundle(hash string) (*plan.Bundle, error) {
	is.mu.Lock()
	defer is.mu.Unlock()
	if b := is.bundles[hash]; b != nil {
		return b, nil
	}
	b, err := plan.OpenBundle(is.folder(hash), hash)
	if err != nil {
		return nil, err
	}
	is.bundles[hash] = b
	return b, nil
}

// frozenPlan returns the plan that a run took in with the content of this hash, nil if there was none.
func (is *inputs) frozenPlan(hash string) (*plan.Plan, error) {
	text, err := taskdir.ReadOptional(is.folder(hash), taskdir.Plan)
	if text == nil {
		return nil, err
	}
	if b := is.frozenBundle(text); b != nil {
		return rootPlan(b), nil
	}
	b, err := bundleOf(text, is.store.Rel(filepath.Join(is.task.dir, taskdir.Plan)), func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	return rootPlan(b), err // taken in by an older version, or changed since: it must not call other files
}

// frozenBundle returns the plan with this text as a run took it in, with the files that it called then; nil if no run did.
func (is *inputs) frozenBundle(text []byte) *plan.Bundle {
	entries, err := os.ReadDir(filepath.Join(is.task.runDir, "inputs"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		own, err := taskdir.ReadFile(is.folder(e.Name()), taskdir.Plan)
		if err != nil || !bytes.Equal(own, text) {
			continue
		}
		if b, err := is.Bundle(e.Name()); err == nil { // else the folder is that of a content, not of a plan
			return b
		}
	}
	return nil
}

// planHash returns the name of the plan.json in a content or bundle, "" if there was none.
func (is *inputs) planHash(content string) (string, error) {
	data, err := taskdir.ReadOptional(is.folder(content), taskdir.Plan)
	if data == nil {
		return "", err
	}
	return FileDigest(data), nil
}

// FileDigest returns the name of a plan.json in proofs, and of any file that counts as a whole in standards.
func FileDigest(data []byte) string { return hashPrefix + agentcall.SHA256Hex(data) }

// taskSpec returns the TaskSpec of a frozen content, nil if there is none. A TaskSpec is only a hint: if it can't be read, the
// error is reported and stops nobody.
func (is *inputs) taskSpec(hash string) (*plan.TaskSpec, error) {
	data, err := taskdir.ReadOptional(is.folder(hash), taskdir.TaskSpec)
	if data == nil {
		return nil, err
	}
	spec, problems := plan.ParseTaskSpec(data)
	if spec == nil {
		return nil, fmt.Errorf("taskspec.json is left out: %s", strings.Join(problems, "; "))
	}
	return spec, nil
}

// allowedPaths returns the protected paths that the plan of an approved content may change. An empty content has none.
func (is *inputs) allowedPaths(j Job, content string) ([]string, error) {
	if content == "" {
		return nil, nil
	}
	p, err := is.frozenPlan(content)
	return plannedProtected(p, j.Protected), err
}

// protectedChanges returns the changed paths that are protected and that the plan of this content may not change.
func (is *inputs) protectedChanges(j Job, content string, changes []git.Change) (paths []string, err error) {
	allowed, err := is.allowedPaths(j, content)
	for _, ch := range changes {
		if config.Protects(j.Protected, ch.Path) && !slices.Contains(allowed, ch.Path) {
			paths = append(paths, ch.Path)
		}
	}
	return shortList(paths), err
}
