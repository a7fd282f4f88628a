package mcpclients

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Start is where a program is started: what it finds besides the settings of the person depends on that.
type Start struct {
	Dir  string // the folder
	Main string // the main checkout of the repository that it is in, "" when it is in none
}

// Other is a server of the same name that a program finds beside the settings of the person for all projects.
type Other struct {
	File    string `json:"file"`
	Project string `json:"project"` // the folder in and below which it counts; "": everywhere
	Wins    bool   `json:"wins"`    // it counts there, and the one of the person's settings does not
	Remove  string `json:"remove"`  // the command that takes it out; "": the program has none
}

type place struct {
	Other
	has func(data []byte) bool // nil: as the person's settings would have it
}

// Elsewhere are those that it finds when it is started there. Files that can't be read count for nothing: the program says so itself.
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

// claudePlaces are what its own settings say of one project, by the main checkout or the folder where there is no repository, and .mcp.json
// in the folder and all above it.
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

// ofProject reports whether settings of claude have the server for one project.
func ofProject(project string) func([]byte) bool {
	return func(data []byte) bool {
		doc, err := jsonForm{}.decode(data)
		projects, _ := doc["projects"].(map[string]any)
		of, _ := projects[project].(map[string]any)
		servers, _ := of["mcpServers"].(map[string]any)
		return err == nil && servers[server] != nil
	}
}

// codexPlaces are those of a checkout, from the folder up to its top. It reads them where the person trusts the project.
func codexPlaces(from Start) (list []place) {
	for _, dir := range upTo(from.Dir, top(from.Dir, from.Dir)) {
		list = append(list, place{Other: Other{File: filepath.Join(dir, ".codex", "config.toml"), Project: dir, Wins: true}})
	}
	return list
}

// openCodePlaces are those of a checkout, up to the top of the file system where there is none, and what it reads everywhere: a
// file that OPENCODE_CONFIG names and a folder in the home, before the settings of the person, and the others beside those, after them.
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

// top is the checkout that a folder is in, or else.
func top(dir, orElse string) string {
	for _, at := range upTo(dir, "/") {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
	}
	return orElse
}

// upTo are a folder and those above it, as far as last.
func upTo(dir, last string) (list []string) {
	for at := dir; ; at = filepath.Dir(at) {
		if list = append(list, at); at == last || at == filepath.Dir(at) {
			return list
		}
	}
}
