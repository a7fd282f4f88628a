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

// Entry is the server in the settings of a program, with the note by which it is taken out as it was put in.
type Entry struct {
	Client
	Note string        // file in the person's folder of state; "": nothing is noted
	Disk *durable.Disk // nil is a disk without faults
}

// note is what was done to settings.
type note struct {
	File  string   `json:"file"`
	Added string   `json:"added"`
	Sum   string   `json:"sum"`            // of the settings afterwards
	Made  bool     `json:"made"`           // there was no file before
	Dirs  []string `json:"dirs,omitempty"` // that were made for it, the innermost first
}

// Change is what would be done, or was.
type Change struct {
	Text   string // that is put in, or taken out
	There  bool   // the settings have the server, before anything is done
	Edited bool   // they were changed by others since it was put in
	Gone   bool   // the file goes: it was made for the server, and has nothing else
}

// PreviewAdd returns what Add would do.
func (e Entry) PreviewAdd(command []string) (Change, error) {
	old, err := durable.Read(e.File, durable.MaxRecords)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Change{}, err
	}
	_, added, there, err := e.form.add(old, command)
	return Change{Text: added, There: there}, e.wrong(err)
}

// Add puts the server in, unless it is there.
func (e Entry) Add(command []string) (c Change, err error) {
	dirs, err := e.missing()
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
			return old, e.wrong(err)
		}
		made = old == nil
		return now, e.keep(note{e.File, c.Text, sum(now), made, dirs})
	})
	if err == nil && made && !c.There {
		err = os.Chmod(e.File, e.mode)
	}
	return c, err
}

// missing are the folders that the settings lack, the innermost first.
func (e Entry) missing() (dirs []string, err error) {
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
	_, c, err := e.taken(old)
	return c, err
}

// Remove takes the server out, and the file too where that was made for it.
func (e Entry) Remove() (c Change, err error) {
	if c, err = e.PreviewRemove(); err != nil || !c.There {
		return c, err
	}
	err = e.Disk.Edit(e.File, func(old []byte) (now []byte, err error) {
		now, c, err = e.taken(old)
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

// removeFile takes the file away, where it still is old, with the folders that were made for it and hold nothing else.
func (e Entry) removeFile(old []byte) error {
	if err := e.Disk.Remove(e.File, old); err != nil {
		return err
	}
	for _, dir := range e.noted().Dirs {
		if os.Remove(dir) != nil {
			break // there is something in it
		}
	}
	return nil
}

// taken is the settings without the server: as they were before, where the text that was put in still stands there.
func (e Entry) taken(old []byte) (now []byte, c Change, err error) {
	n := e.noted()
	now, c.There, err = e.form.cut(old)
	if n.Added == "" || !c.There || bytes.Count(old, []byte(n.Added)) != 1 {
		return e.rest(old, now, c, err)
	}
	exact := bytes.Replace(old, []byte(n.Added), nil, 1)
	if blank := len(bytes.TrimSpace(exact)) == 0; !blank && holds(e.form, old, exact) != nil {
		return e.rest(old, now, c, err)
	}
	c.Text, c.Edited = n.Added, sum(old) != n.Sum
	c.Gone = n.Made && len(exact) == 0
	return exact, c, nil
}

// rest is settings that were edited since, without the server.
func (e Entry) rest(old, now []byte, c Change, err error) ([]byte, Change, error) {
	if c.There {
		if _, still, again := e.form.cut(now); err != nil || still || again != nil {
			err = fmt.Errorf("%s is written there in a way that can't be taken out by itself: take it out by hand", server)
		}
	}
	c.Edited, c.Text = c.There, shown(old, now)
	return now, c, e.wrong(err)
}

// shown is the text that goes when settings become others that are shorter.
func shown(old, now []byte) string {
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

// noted is what was noted of these settings; nothing when that can't be told.
func (e Entry) noted() (n note) {
	if e.Note == "" {
		return n
	}
	data, err := durable.ReadOwn(e.Note, durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &n) != nil || n.File != e.File {
		return note{}
	}
	return n
}

func (e Entry) keep(n note) error {
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

// wrong is why settings can't be edited, with their file.
func (e Entry) wrong(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.File, err)
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}
