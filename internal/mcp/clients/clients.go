// Package clients tells agent programs of the MCP server, each in its own settings of the person, and takes that back: the file is then
// what it was, byte for byte, where nobody changed the entry meanwhile.
package clients

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Client is a program that can use the server.
type Client struct {
	Name string
	file func(get func(string) string) string
	form form
}

// form is how a client's settings name a server.
type form interface {
	// entry is the text that names the server which a command starts.
	entry(command []string) string
	// read is the text that names the server in a file, "" when none does.
	read(file []byte) (string, error)
	// add adds the entry to a file, nil when there is none.
	add(file []byte, entry string) ([]byte, error)
	// remove takes what read returned out of a file; nil is a file that add made.
	remove(file []byte, entry string) ([]byte, error)
}

// All are the programs that are known, by name.
var All = []Client{
	{"claude", claudeFile, object{"mcpServers", func(command []string) any {
		return struct {
			Type    string   `json:"type"`
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}{"stdio", command[0], command[1:]}
	}}},
	{"codex", codexFile, table{}},
	{"opencode", opencodeFile, object{"mcp", func(command []string) any {
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
		}{"local", command, true}
	}}},
}

// server is the name of the server in the settings of clients.
const server = "trellis"

func claudeFile(get func(string) string) string {
	return filepath.Join(cmp.Or(get("CLAUDE_CONFIG_DIR"), get("HOME")), ".claude.json")
}

func codexFile(get func(string) string) string {
	return filepath.Join(cmp.Or(get("CODEX_HOME"), filepath.Join(get("HOME"), ".codex")), "config.toml")
}

// opencodeFile is the one of opencode's files that is there. It reads all of them, and the last one wins.
func opencodeFile(get func(string) string) string {
	if file := get("OPENCODE_CONFIG"); file != "" {
		return file
	}
	dir := filepath.Join(cmp.Or(get("XDG_CONFIG_HOME"), filepath.Join(get("HOME"), ".config")), "opencode")
	for _, name := range []string{"opencode.jsonc", "opencode.json", "config.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(dir, "opencode.json")
}

// Entry is what the settings of a client say of the server, or are to say.
type Entry struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Text   string `json:"entry"`
	Made   bool   `json:"changed"` // the file was changed
	Other  bool   `json:"-"`       // another entry of that name is there
}

// maxSettings is how long a file of settings may be, in bytes: claude keeps the history of projects in its own.
const maxSettings = 64 << 20

// Look is the entry that Add would add, and whether one is there: Made is false when it is the same.
func (c Client) Look(get func(string) string, command []string) (Entry, error) {
	e := Entry{Client: c.Name, File: c.file(get), Text: c.form.entry(command)}
	if !filepath.IsAbs(e.File) {
		return e, fmt.Errorf("nobody says where the settings of %s are: set HOME to an absolute path", c.Name)
	}
	file, err := read(e.File)
	if err != nil {
		return e, err
	}
	there, err := c.form.read(file)
	if err != nil {
		return e, fmt.Errorf("%s: %w", e.File, err)
	}
	e.Made, e.Other = there == "", there != "" && there != e.Text
	return e, nil
}

// Add adds the entry to the file.
func (c Client) Add(disk *durable.Disk, e Entry) error {
	if err := disk.MkdirAll(filepath.Dir(e.File), 0o700); err != nil {
		return err
	}
	return wrap(e.File, edit(disk, e.File, func(file []byte) ([]byte, error) { return c.form.add(file, e.Text) }))
}

// Remove takes the entry out of the file, whatever it says, and reports what it was; an Entry that is not Made had none.
func (c Client) Remove(disk *durable.Disk, get func(string) string) (e Entry, err error) {
	e = Entry{Client: c.Name, File: c.file(get)}
	file, err := read(e.File)
	if err != nil || file == nil {
		return e, err
	}
	if e.Text, err = c.form.read(file); err != nil || e.Text == "" {
		return e, wrap(e.File, err)
	}
	now, err := c.form.remove(file, e.Text)
	switch {
	case err != nil:
		return e, wrap(e.File, err)
	case now == nil:
		err = os.Remove(e.File)
	default:
		err = edit(disk, e.File, func(file []byte) ([]byte, error) { return c.form.remove(file, e.Text) })
	}
	e.Made = err == nil
	return e, err
}

func wrap(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// real is the file of settings itself, which may be behind a link, as people keep such files elsewhere.
func real(path string) (string, error) {
	file, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return file, wrap(path, err)
}

func edit(disk *durable.Disk, path string, change func([]byte) ([]byte, error)) error {
	file, err := real(path)
	if err != nil {
		return err
	}
	return disk.Edit(file, change)
}

// read is what a file says, nil when there is none.
func read(path string) ([]byte, error) {
	file, err := real(path)
	if err != nil {
		return nil, err
	}
	data, err := durable.Read(file, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

// cut takes a text out of a file at a place, and reports whether it is there.
func cut(file []byte, at int, text string) ([]byte, bool) {
	if !bytes.HasPrefix(file[at:], []byte(text)) {
		return file, false
	}
	return append(append([]byte{}, file[:at]...), file[at+len(text):]...), true
}

func insert(file []byte, at int, text string) []byte {
	return []byte(string(file[:at]) + text + string(file[at:]))
}

// Names are the names of all.
func Names() string {
	var names []string
	for _, c := range All {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
