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

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proof"
)

// standardsFile is in the folder of a call what its work was judged by when it began, until somebody looked again.
const standardsFile = "standards.json"

// watchStandards looks what judges the work before something that runs what agents want to be run. The function that it
// returns looks again, and keeps what was changed meanwhile for people to agree to: who says what happened.
func (a *Acts) watchStandards(c flow.Call) (again func(who string) (notes []string, err error), err error) {
	before, err := a.standardsBefore(c)
	if err != nil {
		return nil, err
	}
	return func(who string) ([]string, error) {
		now := StandardsOf(a.Store, a.Dir)
		changed, err := a.byHand(before, now)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			if err := a.keepUnconfirmed(before, changed); err != nil {
				return nil, err
			}
		}
		for i, name := range changed {
			changed[i] = before.tell(name, now)
		}
		path := filepath.Join(a.RunDir, agentcall.Folder(c), standardsFile)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("ending the look at what judges: %w", err)
		}
		if len(changed) == 0 {
			return nil, nil
		}
		return []string{fmt.Sprintf("what judges the work was changed while %s, and counts only with `trellis approve %s`: %s", who, a.id(), strings.Join(changed, "; "))}, nil
	}, nil
}

// standardsBefore are those with which a call was entered. After an entry at whose end nobody looked they are that one's.
func (a *Acts) standardsBefore(c flow.Call) (s Standards, err error) {
	dir := filepath.Join(a.RunDir, agentcall.Folder(c))
	if c.Attempt > 1 {
		if data, err := durable.ReadBelow(dir, standardsFile, maxStandards); err == nil && json.Unmarshal(data, &s) == nil {
			return s, nil
		}
	}
	s = StandardsOf(a.Store, a.Dir)
	return s, a.noteOf(c, standardsFile, s)
}

// noteOf keeps in the folder of a call what it began with. A power cut may take it.
func (a *Acts) noteOf(c flow.Call, name string, v any) error {
	dir := filepath.Join(a.RunDir, agentcall.Folder(c))
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	temp := filepath.Join(dir, durable.TempPrefix+name)
	if err == nil {
		err = durable.WriteOwn(temp, data, 0o600)
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("noting what %s began with: %w", c.ID, err)
	}
	return nil
}

// byHand are the names of what differs, without what commands of Trellis made of it.
func (a *Acts) byHand(before, now Standards) ([]string, error) {
	edits, err := readEdits(a.Dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(before.differ(now), func(name string) bool { return edits.lead(name, before[name], now[name]) }), nil
}

// keepUnconfirmed keeps that these standards were changed. What counted at first does until people agree, and only what
// they say from now on is about it.
func (a *Acts) keepUnconfirmed(before Standards, changed []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	u, err := ReadUnconfirmed(a.Dir)
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
	said, _, err := proof.Read(a.Dir)
	if err != nil {
		return err
	}
	u.Said = writtenDown(said)
	data, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding what was changed while agents were at work: %w", err)
	}
	return a.Disk.WriteFile(filepath.Join(a.RunDir, unconfirmedFile), data, 0o600)
}

// confirm forgets what was changed: people agreed to how it is now, or put it back.
func (a *Acts) confirm() error {
	u, err := ReadUnconfirmed(a.Dir)
	if err != nil || len(u.Was) == 0 {
		return err
	}
	now := StandardsOf(a.Store, a.Dir)
	for name := range u.Was {
		if _, known := now[name]; !known {
			return nil // it is looked at again when it can be read
		}
	}
	if err := os.Remove(filepath.Join(a.RunDir, unconfirmedFile)); err != nil {
		return fmt.Errorf("taking in what people agreed to: %w", err)
	}
	return nil
}

// deciding are activities that run commands, which may be what agents wrote.
var deciding = []string{string(baseline), string(verify), string(prove), string(final), "script", "items", "proof"}

// judged does one of those, and sees what it changed of what judges.
func (a *Acts) judged(ctx context.Context, c flow.Call, in json.RawMessage, act flow.Activity) (any, error) {
	if !slices.Contains(deciding, act.Name) {
		return act.Run(ctx, c, in)
	}
	again, err := a.watchStandards(c)
	if err != nil {
		return nil, err
	}
	out, err := act.Run(ctx, c, in)
	_, lookErr := again("commands ran")
	return out, errors.Join(err, lookErr)
}
