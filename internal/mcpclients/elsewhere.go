package mcpclients

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Start says where a program is started, which determines the settings that it finds besides the user's.
type Start struct {
	Dir  string // the working directory
	Main string // the main checkout of its repository, "" if it is in none
}

// Other is a server of the same name that a program finds besides that in the user's settings for all projects.
type Other struct {
	File    string `json:"file"`
	Project string `json:"project"` // the folder in and below which it is used; "": everywhere
	Wins    bool   `json:"wins"`    // it takes precedence over the one in the user's settings
	Remove  string `json:"remove"`  // the command that removes it; "": the program has none
}

type place struct {
	Other
	has func(data []byte) bool // nil: in the same format as the user's settings
}

// Elsewhere returns the servers found if the program is started in from. Unreadable files are skipped: the program reports them.
func (c *Client) Elsewhere(from Start) []Other {
	list := []Other{}
	for _, p := range c.places(from) {
		real, err := filepath.EvalSymlinks(p.File)
		if err != nil || real == c.File && p.has == nil {
			continue
		}
		if p.has == nil {
			p.has = func(data []byte) bool { return has(c.form, data) }
		}
		if data, err := durable.Read(real, durable.MaxRecords); err == nil && p.has(data) {
			list = append(list, p.Other)
		}
	}
	return list
}

// claudePlaces returns a project's part of claude's own settings, which is under the main checkout or, outside of repositories,
// the working directory; and .mcp.json in that directory and all above it.
func claudePlaces(own string) func(Start) []place {
	return func(from Start) []place {
		project := cmp.Or(from.Main, from.Dir)
		list := []place{{Other{own, project, true, "claude mcp remove " + server + " -s local"}, ofProject(project)}}
		for _, dir := range upTo(from.Dir, "/") {
			list = append(list, place{Other: Other{filepath.Join(dir, ".mcp.json"), dir, true, "claude mcp remove " + server + " -s project"}})
		}
		return list
	}
}

// ofProject returns a function that reports whether settings of claude have the server for one project.
func ofProject(project string) func([]byte) bool {
	return func(data []byte) bool {
		doc, err := jsonForm{}.decode(data)
		projects, _ := doc["projects"].(map[string]any)
		of, _ := projects[project].(map[string]any)
		servers, _ := of["mcpServers"].(map[string]any)
		return err == nil && servers[server] != nil
	}
}

// codexPlaces returns the settings in a checkout, from dir up to its top. Codex reads them if the user trusts the project.
func codexPlaces(from Start) (list []place) {
	for _, dir := range upTo(from.Dir, top(from.Dir, from.Dir)) {
		list = append(list, place{Other: Other{File: filepath.Join(dir, ".codex", "config.toml"), Project: dir, Wins: true}})
	}
	return list
}

// openCodePlaces returns the settings in a checkout or, without one, in all directories up to the root; and those read
// everywhere: the file that OPENCODE_CONFIG names and a folder in the home directory, which take precedence over the user's
// settings, and the other files beside those, which don't.
func openCodePlaces(own, home, named string) func(Start) []place {
	return func(from Start) (list []place) {
		names := []string{"opencode.jsonc", "opencode.json"}
		add := func(dir, project string, wins bool, names ...string) {
			for _, name := range names {
				list = append(list, place{Other: Other{File: filepath.Join(dir, name), Project: project, Wins: wins}})
			}
		}
		for _, dir := range upTo(from.Dir, top(from.Dir, "/")) {
			if at := filepath.Join(dir, ".opencode"); dir != home {
				add(at, dir, true, names...)
			}
			add(dir, dir, true, names...)
		}
		if filepath.IsAbs(named) {
			add(filepath.Dir(named), "", true, filepath.Base(named))
		}
		add(filepath.Join(home, ".opencode"), "", true, names...)
		add(filepath.Dir(own), "", false, append(names, "config.json")...)
		return list
	}
}

// top returns the top of the checkout that contains dir, or orElse.
func top(dir, orElse string) string {
	for _, at := range upTo(dir, "/") {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
	}
	return orElse
}

// upTo returns a directory and those above it, up to last.
func upTo(dir, last string) (list []string) {
	for at := dir; ; at = filepath.Dir(at) {
		if list = append(list, at); at == last || at == filepath.Dir(at) {
			return list
		}
	}
}
