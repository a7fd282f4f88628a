package mcpclients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Entry is the server in the settings of a program, with a note that allows an exact removal.
type Entry struct {
	Client
	Note string        // path of the note in the user's state folder; "": there is no note
	Disk *durable.Disk // nil: a disk without injected faults
}

// note records a change of settings.
type note struct {
	File  string   `json:"file"`
	Added string   `json:"added"`
	Sum   string   `json:"sum"`            // of the settings after the change
	Made  bool     `json:"made"`           // the file was created
	Dirs  []string `json:"dirs,omitempty"` // that were created for it, the innermost first
}

// Change describes a change, planned or done.
type Change struct {
	Text   string // that is inserted or removed
	There  bool   // the settings had the server before the change
	Edited bool   // the settings were changed by others since it was inserted
	Gone   bool   // the file is removed: it was created for the server, and contains nothing else
}

// PreviewAdd returns what Add would do.
func (e Entry) PreviewAdd(command []string) (Change, error) {
	old, err := durable.Read(e.File, durable.MaxRecords)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Change{}, err
	}
	_, added, there, err := e.form.add(old, command)
	return Change{Text: added, There: there}, e.wrapError(err)
}

// Add inserts the server, unless it is in the settings.
func (e Entry) Add(command []string) (c Change, err error) {
	dirs, err := e.missingDirs()
	if err != nil {
		return c, err
	}
	if err := e.Disk.MkdirAll(filepath.Dir(e.File), 0o700); err != nil {
		return c, fmt.Errorf("making the folder of %s: %w", e.File, err)
	}
	made := false
	err = e.Disk.Edit(e.File, func(old []byte) (now []byte, err error) {
		now, c.Text, c.There, err = e.form.add(old, command)
		if err != nil || c.There {
			return old, e.wrapError(err)
		}
		made = old == nil
		return now, e.writeNote(note{e.File, c.Text, checksum(now), made, dirs})
	})
	if err == nil && made && !c.There {
		err = os.Chmod(e.File, e.mode)
	}
	return c, err
}

// missingDirs returns the missing folders of the settings' path, the innermost first.
func (e Entry) missingDirs() (dirs []string, err error) {
	for dir := filepath.Dir(e.File); ; dir = filepath.Dir(dir) {
		if _, err = os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dirs, err
		}
		dirs = append(dirs, dir)
	}
}

// PreviewRemove returns what Remove would do.
func (e Entry) PreviewRemove() (Change, error) {
	old, err := durable.Read(e.File, durable.MaxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return Change{}, nil
	}
	if err != nil {
		return Change{}, err
	}
	_, c, err := e.withoutServer(old)
	return c, err
}

// Remove removes the server, and the file too if that was created for it.
func (e Entry) Remove() (c Change, err error) {
	if c, err = e.PreviewRemove(); err != nil || !c.There {
		return c, err
	}
	err = e.Disk.Edit(e.File, func(old []byte) (now []byte, err error) {
		now, c, err = e.withoutServer(old)
		if c.Gone {
			return old, e.removeFile(old)
		}
		return now, err
	})
	if err == nil && e.Note != "" {
		if err = os.Remove(e.Note); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return c, err
}

// removeFile removes the file if its content still is old, and the folders created for it if they are empty.
func (e Entry) removeFile(old []byte) error {
	if err := e.Disk.Remove(e.File, old); err != nil {
		return err
	}
	for _, dir := range e.readNote().Dirs {
		if os.Remove(dir) != nil {
			break // it is not empty
		}
	}
	return nil
}

// withoutServer returns the settings without the server: exactly as before, if the inserted text is still in them.
func (e Entry) withoutServer(old []byte) (now []byte, c Change, err error) {
	n := e.readNote()
	now, c.There, err = e.form.remove(old)
	if n.Added == "" || !c.There || bytes.Count(old, []byte(n.Added)) != 1 {
		return e.editedSettings(old, now, c, err)
	}
	exact := bytes.Replace(old, []byte(n.Added), nil, 1)
	if blank := len(bytes.TrimSpace(exact)) == 0; !blank && checkUnchanged(e.form, old, exact) != nil {
		return e.editedSettings(old, now, c, err)
	}
	c.Text, c.Edited = n.Added, checksum(old) != n.Sum
	c.Gone = n.Made && len(exact) == 0
	return exact, c, nil
}

// editedSettings returns settings that were edited since, without the server.
func (e Entry) editedSettings(old, now []byte, c Change, err error) ([]byte, Change, error) {
	if c.There {
		if _, still, again := e.form.remove(now); err != nil || still || again != nil {
			err = fmt.Errorf("%s is written there in a way that can't be taken out by itself: take it out by hand", serverName)
		}
	}
	c.Edited, c.Text = c.There, removedText(old, now)
	return now, c, e.wrapError(err)
}

// removedText returns the text that is removed in order to turn old into now.
func removedText(old, now []byte) string {
	if len(now) >= len(old) {
		return ""
	}
	head := 0
	for head < len(now) && old[head] == now[head] {
		head++
	}
	tail := 0
	for tail < len(now)-head && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	return string(old[head : len(old)-tail])
}

// readNote returns the note for these settings, an empty one if there is none or it can't be read.
func (e Entry) readNote() (n note) {
	if e.Note == "" {
		return n
	}
	data, err := durable.ReadOwn(e.Note, durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &n) != nil || n.File != e.File {
		return note{}
	}
	return n
}

func (e Entry) writeNote(n note) error {
	if e.Note == "" {
		return nil
	}
	doc, err := json.Marshal(n)
	if err == nil {
		err = e.Disk.MkdirAll(filepath.Dir(e.Note), 0o700)
	}
	if err == nil {
		err = e.Disk.WriteFile(e.Note, append(doc, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting what is put in: %w", err)
	}
	return nil
}

// wrapError adds the name of the settings' file to an error.
func (e Entry) wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.File, err)
}

func checksum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}
