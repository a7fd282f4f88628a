package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// storeJudged stores a copy of trusted settings, if they are those that were judged. If nothing can be stored, the settings
// still run, but none stay in force when others are checked out; that is printed once.
func (g *TrustGate) storeJudged(dir string, judged map[string]string, unread error) {
	now, err := settingFiles(g.store.Root)
	if err == nil && unread == nil && !maps.Equal(judged, now) {
		return // somebody is writing them: the next call stores them
	}
	if err = cmp.Or(unread, err); err == nil {
		err = g.storeSettings(now, dir)
	}
	if err != nil {
		g.storeWarning.Do(func() { g.env.say("%v: when other settings are checked out, these do not stay in force", err) })
	}
}

// trustedSettingsDir returns the folder that holds the settings trusted last, "" if they can't be stored.
func (g *TrustGate) trustedSettingsDir() (string, error) {
	dir := g.env.stateFile("settings")
	if dir == "" {
		return "", nil
	}
	clone, err := g.repo.CloneID()
	return filepath.Join(dir, clone), err
}

// storeSettings stores a copy of settings, for use when others are checked out.
func (g *TrustGate) storeSettings(now map[string]string, dir string) error {
	kept, err := settingFiles(dir)
	if err != nil {
		return err
	}
	for name := range kept {
		if _, stays := now[name]; !stays {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("keeping the settings: %w", err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".trellis"), 0o700); err != nil {
		return fmt.Errorf("keeping the settings: %w", err)
	}
	for name, text := range now {
		if old, there := kept[name]; there && old == text {
			continue
		}
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = g.env.Disk.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return fmt.Errorf("keeping the settings: %w", err)
		}
	}
	return nil
}

// ForgetSettings removes the stored copy, so that no earlier settings come into force.
func (g *TrustGate) ForgetSettings() error {
	kept, err := g.trustedSettingsDir()
	if err == nil && kept != "" {
		err = os.RemoveAll(kept)
	}
	if err != nil {
		return fmt.Errorf("forgetting the settings that were in force: %w", err)
	}
	return nil
}

// settingFiles returns the contents of the settings files below root, by path.
func settingFiles(root string) (map[string]string, error) {
	names := []string{".trellis/config.yaml", ".trellis/worktree.yaml", ".trellis/rehearsal.yaml"}
	for _, dir := range []string{".trellis/agents", ".trellis/templates"} {
		list, err := durable.ReadDirBelow(root, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range list {
			if e.Type().IsRegular() {
				names = append(names, dir+"/"+e.Name())
			}
		}
	}
	files := map[string]string{}
	for _, name := range names {
		data, err := durable.ReadBelow(root, name, durable.MaxDocument)
		switch {
		case err == nil:
			files[name] = string(data)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return files, nil
}
