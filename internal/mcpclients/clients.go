// Package mcpclients adds an MCP server to the settings of programs that start such servers, and removes it. It changes no other
// byte: settings are edited as text, and an edit is accepted only if the settings say the same as before, except about the server.
package mcpclients

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
)

// Names are the names of the supported programs.
var Names = []string{"claude", "codex", "opencode"}

// serverName is the name of the server in the settings.
const serverName = "trellis"

// Client is a program that starts MCP servers, with its settings.
type Client struct {
	Name       string
	File       string // the user's settings for all projects
	form       form
	mode       os.FileMode             // of a new file
	candidates func(Start) []candidate // other files in which it may find servers
}

// form is a format of settings.
type form interface {
	// add returns the settings with the server, and the inserted text. there reports whether the server is in them already.
	add(old []byte, command []string) (now []byte, added string, there bool, err error)
	// remove returns the settings without the server, whatever its entry looks like. there is false if they don't have it.
	remove(old []byte) (now []byte, there bool, err error)
	// decode parses settings; key returns the name of the servers in them.
	decode(data []byte) (map[string]any, error)
	key() string
}

// hasServer reports whether settings have the server, false if they can't be parsed.
func hasServer(f form, data []byte) bool {
	doc, err := f.decode(data)
	servers, _ := doc[f.key()].(map[string]any)
	return err == nil && servers[serverName] != nil
}

// checkUnchanged returns an error unless was and now are equal except for the server, and its table if nothing else is in that.
func checkUnchanged(f form, was, now []byte) error {
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
			if delete(servers, serverName); len(servers) == 0 {
				delete(doc, f.key())
			}
		}
	}
	if !reflect.DeepEqual(a, b) {
		return errors.New("it can't be edited without changing what else it says")
	}
	return nil
}

// New returns the program of that name, nil if it is unknown. get looks up environment variables.
func New(name string, get func(string) string) (*Client, error) {
	home := get("HOME")
	configDir := func(variable, usual string) string {
		if dir := get(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, usual)
	}
	var c *Client
	switch name {
	case "claude":
		file := filepath.Join(configDir("CLAUDE_CONFIG_DIR", ""), ".claude.json")
		c = &Client{name, file, jsonForm{servers: "mcpServers", entry: claudeEntry}, 0o600, claudeCandidates(file)}
	case "codex":
		c = &Client{name, filepath.Join(configDir("CODEX_HOME", ".codex"), "config.toml"), tomlForm{}, 0o600, codexCandidates}
	case "opencode":
		file := openCodeFile(filepath.Join(configDir("XDG_CONFIG_HOME", ".config"), "opencode"))
		c = &Client{name, file, jsonForm{servers: "mcp", schema: "https://opencode.ai/config.json", entry: openCodeEntry}, 0o644, openCodeCandidates(file, home, get("OPENCODE_CONFIG"))}
	default:
		return nil, nil
	}
	if !filepath.IsAbs(c.File) {
		return nil, errors.New("there is no HOME to find the settings of " + name + " in")
	}
	if real, err := filepath.EvalSymlinks(c.File); err == nil { // a symbolic link remains one
		c.File = real
	}
	return c, nil
}

// openCodeFile returns the existing file of opencode's settings: it reads all of them, and the first takes precedence.
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
