package subject

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/templates"
)

const (
	configFile   = ".trellis/config.yaml"
	worktreeFile = ".trellis/worktree.yaml"
	script       = ".trellis/rehearsal.yaml"
	workflow     = ".trellis/workflow.md"
)

// Settings returns the subject of what a project says for all its tasks: its settings, the instructions and templates of its
// roles, the script of the rehearsal agent, and files of the checkout that hooks, notify and agents name.
func Settings() trust.Subject {
	s := trust.Subject{Name: trust.Settings, Files: []string{configFile, worktreeFile, script, workflow}, Read: readSettings}
	for _, role := range trellis.Roles {
		s.Files = append(s.Files, ".trellis/agents/"+string(role)+".md")
	}
	for _, name := range templates.Names() {
		s.Files = append(s.Files, ".trellis/templates/"+name+".md.tmpl")
	}
	return s
}

// Programs returns the subject of the files of the checkout that config names, which is a config.yaml from elsewhere. The
// files are judged as they are checked out, since the previous settings run them too.
func Programs(config []byte) trust.Subject {
	_, named := fromConfig(configFile, config)
	return trust.Subject{Name: trust.Settings, Named: named, Read: readSettings}
}

func readSettings(file string, data []byte) (items []trust.Item, more []string) {
	switch {
	case file == configFile:
		return fromConfig(file, data)
	case file == worktreeFile:
		return fromWorktree(file, data), nil
	case file == script || file == workflow || strings.HasPrefix(file, ".trellis/agents/") || strings.HasPrefix(file, ".trellis/templates/"):
		return wholeFile(trust.Prompt, file, data), nil
	}
	items = wholeFile(trust.Program, file, data)
	for n := range items {
		items[n].Text = file + " " + trust.Digest(data)
	}
	return items, nil
}

// fromConfig returns an item for each setting, whether the file has it or not: leaving out a setting can lower protection too.
func fromConfig(file string, data []byte) (items []trust.Item, more []string) {
	for _, v := range config.Values(config.Files{Config: config.File{Name: file, Data: data}}) {
		kind, label := kindOf(v.Key)
		if kind == "" {
			continue
		}
		line := v.Line
		label = cmp.Or(label, v.Key)
		add(&items, kind, file, line, label, v.Text)
		switch kind {
		case trust.Hook:
			more = append(more, programs(v.Text)...)
		case trust.Notify, trust.Agent:
			more = append(more, programs(argv(v.Text)...)...)
		}
	}
	return items, more
}

// harmless are settings that neither run nor guard anything.
var harmless = []string{"runs.", "packages.", "default_package", "delivery.commit_type", "delivery.labels", "delivery.draft", "depends_on_merged"}

// kindOf returns the kind of a setting, "" if it does no harm whatever its value; and the label in front of its value, "" for its key.
func kindOf(key string) (kind trust.Kind, label string) {
	name, entry, each := strings.Cut(key, "[")
	each = each && strings.HasSuffix(entry, "]")
	switch {
	case strings.HasPrefix(name, "hooks."):
		if each {
			return trust.Hook, strings.TrimPrefix(name, "hooks.")
		}
		return "", ""
	case name == "verify" && each:
		return trust.Command, "verify"
	case name == "worktree.setup":
		if each {
			return trust.Command, "setup"
		}
		return "", ""
	case name == "notify":
		return trust.Notify, "notify"
	case strings.HasPrefix(name, "agents."):
		return trust.Agent, strings.TrimPrefix(name, "agents.")
	case each:
		return "", "" // the whole list is one item
	case slices.ContainsFunc(harmless, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		return "", ""
	}
	return trust.Protection, name
}

// argv returns the words of the programs that the JSON of an agent, or of an entry of notify, names.
func argv(text string) []string {
	var said struct{ Command, Read, Edit, Session []string }
	if json.Unmarshal([]byte(text), &said) != nil {
		return nil
	}
	var words []string
	for _, list := range [][]string{said.Command, said.Read, said.Edit, said.Session} {
		words = append(words, list...)
	}
	return words
}

// fromWorktree returns the items that worktree.yaml, a file of older versions of Trellis, adds.
func fromWorktree(file string, data []byte) (items []trust.Item) {
	if len(data) == 0 {
		return nil
	}
	for _, v := range config.Values(config.Files{Worktree: config.File{Name: path.Base(file), Data: data}}) {
		kind, label := kindOf(v.Key)
		switch {
		case kind == trust.Command:
			add(&items, kind, file, v.Line, label, v.Text)
		case v.Line > 0 && kind == trust.Protection:
			add(&items, trust.Setting, file, v.Line, label, v.Text)
		}
	}
	return items
}
