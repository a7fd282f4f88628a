package planner

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// files are the files of the task directory that a planning writes, and what its calls keep below run/.
type files struct {
	dir  string
	disk *durable.Disk
}

// keep writes a file of this call below run/ and returns a reference to it.
func (f files) keep(c flow.Call, name string, data []byte) (agentcall.Ref, error) {
	return f.keepAt(filepath.Join(agentcall.Folder(c), name), data)
}

func (f files) keepAt(name string, data []byte) (agentcall.Ref, error) {
	path := filepath.Join(f.dir, taskdir.Run, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return agentcall.Ref{}, fmt.Errorf("keeping %s: %w", name, err)
	}
	return agentcall.Ref{Path: filepath.ToSlash(name), SHA256: agentcall.SHA256Hex(data), Bytes: len(data)}, f.disk.WriteFile(path, data, 0o600)
}

func (f files) read(ref agentcall.Ref) (string, error) {
	data, err := durable.ReadBelow(filepath.Join(f.dir, taskdir.Run), ref.Path, durable.MaxJournal)
	if err != nil {
		return "", fmt.Errorf("reading what an earlier call said: %w", err)
	}
	if agentcall.SHA256Hex(data) != ref.SHA256 {
		return "", fmt.Errorf("%s was changed since it was written", ref.Path)
	}
	return string(data), nil
}

// writeOrRemove writes a file of the planning into the directory. If this planning has none (ref is nil), it removes that of an
// earlier planning.
func (f files) writeOrRemove(c flow.Call, name string, ref *agentcall.Ref) error {
	if ref == nil {
		return f.discard(c, name)
	}
	text, err := f.read(*ref)
	if err != nil {
		return err
	}
	return f.rewrite(c, name, []byte(text))
}

// rewrite replaces the content of a file of the planning. The old content, which a person may have saved meanwhile, is kept in the
// folder of this call.
func (f files) rewrite(c flow.Call, name string, text []byte) error {
	return f.disk.Edit(filepath.Join(f.dir, name), func(old []byte) ([]byte, error) {
		return text, f.keepOld(c, name, old, text)
	})
}

// discard removes a file that this planning does not have, and keeps its content.
func (f files) discard(c flow.Call, name string) error {
	path := filepath.Join(f.dir, name)
	err := f.disk.Edit(path, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil
		}
		err := f.keepOld(c, name, old, nil)
		if err == nil {
			err = f.disk.Remove(path, old)
		}
		return old, err
	})
	if err != nil {
		return fmt.Errorf("removing %s of an earlier planning: %w", name, err)
	}
	return nil
}

// keepOld keeps the old content of a file, if it is to be replaced by another one.
func (f files) keepOld(c flow.Call, name string, old, text []byte) error {
	if len(old) == 0 || bytes.Equal(old, text) {
		return nil
	}
	_, err := f.keep(c, filepath.Join("before", name), old)
	return err
}

// replacedFiles are the files that a planning replaces.
var replacedFiles = []string{taskdir.PRD, taskdir.Plan, taskdir.TaskSpec, taskdir.Research, taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext}

// keepReplaced copies those that the directory has, since a person may have edited them.
func (f files) keepReplaced(c flow.Call) (kept map[string]agentcall.Ref, err error) {
	kept = map[string]agentcall.Ref{}
	for _, name := range replacedFiles {
		data, err := taskdir.ReadFile(f.dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keeping what an earlier planning wrote: %w", err)
		}
		if kept[name], err = f.keep(c, filepath.Join("before", name), data); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
