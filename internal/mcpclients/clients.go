// Package mcpclients knows the programs that start MCP servers, and adds one to the settings of each or takes it out again. What
// it does not add it leaves as it is, to the byte: settings are edited as text, and an edit counts only if they say the same as
// before but for the server.
package mcpclients

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
)

// Names are those of the programs.
var Names = []string{"claude", "codex", "opencode"}

// server is what the settings call the server.
const server = "trellis"

// Client is a program that starts MCP servers, with its settings.
type Client struct {
	Name   string
	File   string // its settings, those of the person for all projects
	form   form
	mode   os.FileMode         // of a file that is made
	places func(Start) []place // where it may find one besides
}

// form is how settings are written.
type form interface {
	// add is the settings with the server in them, and the text that was put in. there reports that they have it already.
	add(old []byte, command []string) (now []byte, added string, there bool, err error)
	// cut is the settings without the server, however that is written now; there is false when they don't have it.
	cut(old []byte) (now []byte, there bool, err error)
	// decode is what settings say, and key the name of the servers in that.
	decode(data []byte) (map[string]any, error)
	key() string
}

// has reports whether settings have the server; those that can't be read don't.
func has(f form, data []byte) bool {
	doc, err := f.decode(data)
	servers, _ := doc[f.key()].(map[string]any)
	return err == nil && servers[server] != nil
}

// holds is an error unless both settings say the same but for the server, without which the table of servers may be gone.
func holds(f form, was, now []byte) error {
	a, err := f.decode(was)
	if err != nil {
		return err
	}
	b, err := f.decode(now)
	if err != nil {
		return err
	}
	for _, doc := range []map[string]any{a, b} {
		if servers, is := doc[f.key()].(map[string]any); is {
			if delete(servers, server); len(servers) == 0 {
				delete(doc, f.key())
			}
		}
	}
	if !reflect.DeepEqual(a, b) {
		return errors.New("it can't be edited without changing what else it says")
	}
	return nil
}

// New is a program by its name, nil when nobody knows it. get tells of the environment.
func New(name string, get func(string) string) (*Client, error) {
	home := get("HOME")
	under := func(variable, usual string) string {
		if dir := get(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, usual)
	}
	var c *Client
	switch name {
	case "claude":
		file := filepath.Join(under("CLAUDE_CONFIG_DIR", ""), ".claude.json")
		c = &Client{name, file, jsonForm{servers: "mcpServers", entry: claudeEntry}, 0o600, claudePlaces(file)}
	case "codex":
		c = &Client{name, filepath.Join(under("CODEX_HOME", ".codex"), "config.toml"), tomlForm{}, 0o600, codexPlaces}
	case "opencode":
		file := openCodeFile(filepath.Join(under("XDG_CONFIG_HOME", ".config"), "opencode"))
		c = &Client{name, file, jsonForm{servers: "mcp", schema: "https://opencode.ai/config.json", entry: openCodeEntry}, 0o644, openCodePlaces(file, home, get("OPENCODE_CONFIG"))}
	default:
		return nil, nil
	}
	if !filepath.IsAbs(c.File) {
		return nil, errors.New("there is no HOME to find the settings of " + name + " in")
	}
	if real, err := filepath.EvalSymlinks(c.File); err == nil { // a link stays one
		c.File = real
	}
	return c, nil
}

// openCodeFile is the file of opencode's settings that is there. It reads all of them, and what the first one says outweighs the others.
func openCodeFile(dir string) string {
	for _, name := range []string{"opencode.jsonc", "opencode.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(dir, "opencode.json")
}

func claudeEntry(command []string) any {
	return struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{"stdio", command[0], command[1:]}
}

func openCodeEntry(command []string) any {
	return struct {
		Type    string   `json:"type"`
		Command []string `json:"command"`
		Enabled bool     `json:"enabled"`
	}{"local", command, true}
}
