package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// config reads the settings of the project, and what is wrong with them. What is not there has its default. Where programs
// run in a sandbox, git is wary from then on of what they left.
func (p *project) config() (*config.Config, []trellis.Problem) {
	files, unread := p.readSettings()
	c, problems := config.Load(files)
	p.beWary(c)
	return c, append(unread, problems...)
}

func (p *project) beWary(c *config.Config) {
	if c.Sandbox != sandbox.Off {
		p.Repo.BeWary()
	}
}

// settings are the files that say them, as they are now.
func (p *project) settings() config.Files {
	files, _ := p.readSettings()
	return files
}

// readSettings also tells of a file that is there and can't be read: its settings, a sandbox say, would be taken for unset.
func (p *project) readSettings() (f config.Files, problems []trellis.Problem) {
	if p.judged != nil {
		return *p.judged, nil
	}
	read := func(name string) config.File {
		data, err := durable.ReadBelow(p.settingsRoot(), ".trellis/"+name, durable.MaxDocument) // none: the defaults
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, trellis.Unread(".trellis/"+name, err))
		}
		return config.File{Name: ".trellis/" + name, Data: data}
	}
	f = config.Files{Root: p.Root, Config: read("config.yaml"), Worktree: read("worktree.yaml")}
	var unread *trellis.Problem
	if f.User, unread = readUser(p.UserFile); unread != nil {
		problems = append(problems, *unread)
	}
	return f, problems
}

// settingsRoot is the folder that the settings are read below.
func (p *project) settingsRoot() string { return cmp.Or(p.Settings, p.Root) }

// config is the settings of the project for a command that needs them valid. Warnings are for init, validate and doctor
// to say.
func (a *console) config(p *project) (*config.Config, error) {
	c, problems := p.config()
	if errs := ready.Errors(problems); len(errs) > 0 {
		for _, problem := range errs[1:] {
			a.Say("%v", &problem)
		}
		return nil, &errs[0]
	}
	return c, nil
}

// namedAgents are the agents that config asks for, each once.
func namedAgents(c *config.Config) []string {
	names := map[string]bool{c.Agents.Default: true}
	for _, r := range c.Agents.Roles {
		names[r.Agent] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
