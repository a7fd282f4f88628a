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
	File            string `json:"file"`
	Project         string `json:"project"` // the folder in and below which it is used; "": everywhere
	TakesPrecedence bool   `json:"wins"`    // it takes precedence over the one in the user's settings
	Remove          string `json:"remove"`  // the command that removes it; "": the program has none
}

type candidate struct {
	Other
	hasServer func(data []byte) bool // nil: in the same format as the user's settings
}

// Elsewhere returns the servers found if the program is started in from. Unreadable files are skipped: the program reports them.
func (c *Client) Elsewhere(from Start) []Other {
	list := []Other{}
	for _, p := range c.candidates(from) {
		real, err := filepath.EvalSymlinks(p.File)
		if err != nil || real == c.File && p.hasServer == nil {
			continue
		}
		if p.hasServer == nil {
			p.hasServer = func(data []byte) bool { return hasServer(c.form, data) }
		}
		if data, err := durable.Read(real, durable.MaxRecords); err == nil && p.hasServer(data) {
			list = append(list, p.Other)
		}
	}
	return list
}

// claudeCandidates returns a project's part of claude's own settings, which is under the main checkout or, outside of
// repositories, the working directory; and .mcp.json in that directory and all above it.
func claudeCandidates(own string) func(Start) []candidate {
	return func(from Start) []candidate {
		project := cmp.Or(from.Main, from.Dir)
		list := []candidate{{Other{own, project, true, "claude mcp remove " + serverName + " -s local"}, projectHasServer(project)}}
		for _, dir := range dirsUpTo(from.Dir, "/") {
			list = append(list, candidate{Other: Other{filepath.Join(dir, ".mcp.json"), dir, true, "claude mcp remove " + serverName + " -s project"}})
		}
		return list
	}
}

// projectHasServer returns a function that reports whether settings of claude have the server for one project.
func projectHasServer(project string) func([]byte) bool {
	return func(data []byte) bool {
		doc, err := jsonForm{}.decode(data)
		projects, _ := doc["projects"].(map[string]any)
		of, _ := projects[project].(map[string]any)
		servers, _ := of["mcpServers"].(map[string]any)
		return err == nil && servers[serverName] != nil
	}
}

// codexCandidates returns the settings in a checkout, from dir up to its top. Codex reads them if the user trusts the project.
func codexCandidates(from Start) (list []candidate) {
	for _, dir := range dirsUpTo(from.Dir, checkoutTop(from.Dir, from.Dir)) {
		list = append(list, candidate{Other: Other{File: filepath.Join(dir, ".codex", "config.toml"), Project: dir, TakesPrecedence: true}})
	}
	return list
}

// openCodeCandidates returns the settings in a checkout or, without one, in all directories up to the root; and those read
// everywhere: the file that OPENCODE_CONFIG names and a folder in the home directory, which take precedence over the user's
// settings, and the other files beside those, which don't.
func openCodeCandidates(own, home, named string) func(Start) []candidate {
	return func(from Start) (list []candidate) {
		names := []string{"opencode.jsonc", "opencode.json"}
		add := func(dir, project string, wins bool, names ...string) {
			for _, name := range names {
				list = append(list, candidate{Other: Other{File: filepath.Join(dir, name), Project: project, TakesPrecedence: wins}})
			}
		}
		for _, dir := range dirsUpTo(from.Dir, checkoutTop(from.Dir, "/")) {
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

// checkoutTop returns the top of the checkout that contains dir, or orElse.
func checkoutTop(dir, orElse string) string {
	for _, at := range dirsUpTo(dir, "/") {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
	}
	return orElse
}

// dirsUpTo returns a directory and those above it, up to last.
func dirsUpTo(dir, last string) (list []string) {
	for at := dir; ; at = filepath.Dir(at) {
		if list = append(list, at); at == last || at == filepath.Dir(at) {
			return list
		}
	}
}
