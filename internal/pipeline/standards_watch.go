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

// standardsFile, in the folder of a call, has the standards from when the call began, until they are compared.
const standardsFile = "standards.json"

// standardsWatch finds changes to the standards by which the work is judged.
type standardsWatch struct {
	place
	mu sync.Mutex
}

// watch reads the standards before a call that runs an agent, or code that agents may have written. The function that it returns
// reads them again, and keeps changes for people to approve; who says what happened in between.
func (sw *standardsWatch) watch(c flow.Call) (compare func(who string) (notes []string, err error), err error) {
	before, err := firstResult(sw.task, c, standardsFile, maxStandards, func() (Standards, error) { return StandardsOf(sw.store, sw.task.dir), nil })
	if err != nil {
		return nil, err
	}
	return func(who string) ([]string, error) {
		now, changed, err := sw.changedUnrecorded(before)
		if err == nil && len(changed) > 0 { // a person's command may have replaced a file and not recorded that yet
			err = taskdir.Look(sw.store, sw.task.dir, func() (err error) {
				now, changed, err = sw.changedUnrecorded(before)
				return err
			})
		}
		if err != nil && !errors.Is(err, taskdir.ErrNotFound) { // if git removed the task, the first comparison counts
			return nil, err
		}
		if len(changed) > 0 {
			if err := sw.keepUnconfirmed(before, changed); err != nil {
				return nil, err
			}
		}
		for i, name := range changed {
			changed[i] = before.describeChange(name, now)
		}
		path := filepath.Join(sw.task.runDir, agentcall.Folder(c), standardsFile)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("ending the watch over what judges: %w", err)
		}
		if len(changed) == 0 {
			return nil, nil
		}
		return []string{fmt.Sprintf("what judges the work was changed while %s, and counts only with `trellis approve %s`: %s", who, sw.task.id(), strings.Join(changed, "; "))}, nil
	}, nil
}

// changedUnrecorded returns the current standards, and the names of those that something other than a command of Trellis changed.
func (sw *standardsWatch) changedUnrecorded(before Standards) (now Standards, changed []string, err error) {
	now = StandardsOf(sw.store, sw.task.dir)
	var made edits
	if err := readRecord(sw.task.dir, editsFile, &made); err != nil {
		return nil, nil, err
	}
	return now, slices.DeleteFunc(before.weakenedEntries(now), func(name string) bool { return made.accountFor(name, before[name], now[name]) }), nil
}

// keepUnconfirmed records that these standards were changed. The original ones count until people approve the change, and only
// later decisions are about it.
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
	decisions, _, err := proof.Read(sw.task.dir)
	if err != nil {
		return err
	}
	u.Said = decisionKeys(decisions)
	data, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding what was changed while agents were at work: %w", err)
	}
	return sw.task.disk.WriteFile(filepath.Join(sw.task.runDir, unconfirmedFile), data, 0o600)
}

// confirm removes the record of changes: people approved the current standards, or reverted the changes.
func (sw *standardsWatch) confirm() error {
	u, err := ReadUnconfirmed(sw.task.dir)
	if err != nil || len(u.Was) == 0 {
		return err
	}
	now := StandardsOf(sw.store, sw.task.dir)
	for name := range u.Was {
		if _, known := now[name]; !known {
			return nil // it is compared when it can be read again
		}
	}
	if err := os.Remove(filepath.Join(sw.task.runDir, unconfirmedFile)); err != nil {
		return fmt.Errorf("taking in what people approved: %w", err)
	}
	return nil
}

// commandActivities lists the activities that run commands, which agents may have written.
var commandActivities = []string{string(baseline), string(verify), string(prove), string(final), "script", "items", "proof"}

// runWatched runs an activity, and if it is one of commandActivities records what it changed in the standards.
func (sw *standardsWatch) runWatched(ctx context.Context, c flow.Call, in json.RawMessage, act flow.Activity) (any, error) {
	if !slices.Contains(commandActivities, act.Name) {
		return act.Run(ctx, c, in)
	}
	compare, err := sw.watch(c)
	if err != nil {
		return nil, err
	}
	out, err := act.Run(ctx, c, in)
	_, lookErr := compare("commands ran")
	return out, errors.Join(err, lookErr)
}
