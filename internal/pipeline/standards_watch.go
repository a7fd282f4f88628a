package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/taskdir"
)

// standardsFile is in the folder of a call what its work was judged by when it began, until somebody looked again.
const standardsFile = "standards.json"

// standardsWatch watches what judges the work.
type standardsWatch struct {
	store taskdir.Store
	task  *taskDir
	mu    sync.Mutex
}

// watch looks what judges the work before something that runs what agents want to be run. The function that it
// returns looks again, and keeps what was changed meanwhile for people to agree to: who says what happened.
func (sw *standardsWatch) watch(c flow.Call) (again func(who string) (notes []string, err error), err error) {
	before, err := atFirst(sw.task, c, standardsFile, maxStandards, func() (Standards, error) { return StandardsOf(sw.store, sw.task.dir), nil })
	if err != nil {
		return nil, err
	}
	return func(who string) ([]string, error) {
		now, changed, err := sw.changedByHand(before)
		if err == nil && len(changed) > 0 { // or a command of a person's has replaced a file, and not yet said so
			err = taskdir.Look(sw.store, sw.task.dir, func() (err error) {
				now, changed, err = sw.changedByHand(before)
				return err
			})
		}
		if err != nil && !errors.Is(err, taskdir.ErrNotFound) { // of a task that git took away, what was seen of it first counts
			return nil, err
		}
		if len(changed) > 0 {
			if err := sw.keepUnconfirmed(before, changed); err != nil {
				return nil, err
			}
		}
		for i, name := range changed {
			changed[i] = before.tell(name, now)
		}
		path := filepath.Join(sw.task.runDir, agentcall.Folder(c), standardsFile)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("ending the look at what judges: %w", err)
		}
		if len(changed) == 0 {
			return nil, nil
		}
		return []string{fmt.Sprintf("what judges the work was changed while %s, and counts only with `trellis approve %s`: %s", who, sw.task.id(), strings.Join(changed, "; "))}, nil
	}, nil
}

// changedByHand is what judges now, and the names of what differs, without what commands of Trellis made of it.
func (sw *standardsWatch) changedByHand(before Standards) (now Standards, changed []string, err error) {
	now = StandardsOf(sw.store, sw.task.dir)
	var made edits
	if err := readRecord(sw.task.dir, editsFile, &made); err != nil {
		return nil, nil, err
	}
	return now, slices.DeleteFunc(before.differ(now), func(name string) bool { return made.lead(name, before[name], now[name]) }), nil
}

// keepUnconfirmed keeps that these standards were changed. What counted at first does until people agree, and only what
// they say from now on is about it.
func (sw *standardsWatch) keepUnconfirmed(before Standards, changed []string) error {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	u, err := ReadUnconfirmed(sw.task.dir)
	if err != nil {
		return err
	}
	if u.Was == nil {
		u.Was = Standards{}
	}
	for _, name := range changed {
		if _, known := u.Was[name]; !known {
			u.Was[name] = before[name]
		}
	}
	said, _, err := proof.Read(sw.task.dir)
	if err != nil {
		return err
	}
	u.Said = writtenDown(said)
	data, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding what was changed while agents were at work: %w", err)
	}
	return sw.task.disk.WriteFile(filepath.Join(sw.task.runDir, unconfirmedFile), data, 0o600)
}

// confirm forgets what was changed: people agreed to how it is now, or put it back.
func (sw *standardsWatch) confirm() error {
	u, err := ReadUnconfirmed(sw.task.dir)
	if err != nil || len(u.Was) == 0 {
		return err
	}
	now := StandardsOf(sw.store, sw.task.dir)
	for name := range u.Was {
		if _, known := now[name]; !known {
			return nil // it is looked at again when it can be read
		}
	}
	if err := os.Remove(filepath.Join(sw.task.runDir, unconfirmedFile)); err != nil {
		return fmt.Errorf("taking in what people agreed to: %w", err)
	}
	return nil
}

// deciding are activities that run commands, which may be what agents wrote.
var deciding = []string{string(baseline), string(verify), string(prove), string(final), "script", "items", "proof"}

// around does one of those, and sees what it changed of what judges.
func (sw *standardsWatch) around(ctx context.Context, c flow.Call, in json.RawMessage, act flow.Activity) (any, error) {
	if !slices.Contains(deciding, act.Name) {
		return act.Run(ctx, c, in)
	}
	again, err := sw.watch(c)
	if err != nil {
		return nil, err
	}
	out, err := act.Run(ctx, c, in)
	_, lookErr := again("commands ran")
	return out, errors.Join(err, lookErr)
}
