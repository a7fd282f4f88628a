package app

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/internal/yamledit"
)

const configYAML = ".trellis/config.yaml"

// SettingsFile is a settings file of a project or of the user, which commands read and change.
type SettingsFile struct {
	Scope config.Scope
	Name  string // for messages

	path         string
	disk         *durable.Disk
	filesWith    func(data []byte) config.Files                    // all files, as if this one contained data
	recordChange func(before, after []byte)                        // called with a command's change
	readFiles    func() (f config.Files, unread []trellis.Problem) // reads all files
}

// SettingsFile returns .trellis/config.yaml.
func (p *Project) SettingsFile() *SettingsFile {
	return &SettingsFile{
		Scope: config.ScopeProject, Name: configYAML, path: filepath.Join(p.Root, ".trellis", "config.yaml"), disk: p.Store.Disk,
		readFiles: func() (config.Files, []trellis.Problem) {
			f, unread := p.Settings.Read()
			return f, append(unread, missingSettings(p.Repo, f)...)
		},
		filesWith: func(data []byte) config.Files {
			f := p.Settings.Files()
			f.Config.Data = data
			return f
		},
		recordChange: func(before, after []byte) { p.Gate.WarnNotRecorded(p.Gate.recordSettings(before, after)) },
	}
}

// UserSettingsFile returns the user's file for all projects. It may be a link, as some people keep such files elsewhere.
func (e *Env) UserSettingsFile() (*SettingsFile, error) {
	path := e.UserFile()
	if path == "" {
		return nil, WithHints(Usagef("there is no folder for your settings"), "set HOME or XDG_CONFIG_HOME to an absolute path")
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = path, nil
	}
	f := &SettingsFile{
		Scope: config.ScopeUser, Name: path, path: real, disk: e.Disk, recordChange: func(_, _ []byte) {},
		filesWith: func(data []byte) config.Files { return config.Files{User: config.File{Name: path, Data: data}} },
		readFiles: func() (f config.Files, unread []trellis.Problem) {
			user, problem := readUser(path)
			if problem != nil {
				unread = append(unread, *problem)
			}
			return config.Files{User: user}, unread
		},
	}
	return f, err
}

// Settings returns all settings with their effective values, and the problems that keep values in the files from taking effect.
func (f *SettingsFile) Settings() ([]config.Setting, []trellis.Problem) {
	files, unread := f.readFiles()
	problems := trellis.Errors(append(unread, f.check(files)...))
	if f.Scope == config.ScopeUser {
		return config.UserSettings(files.User), problems
	}
	return config.Settings(files), problems
}

func (f *SettingsFile) check(files config.Files) []trellis.Problem {
	if f.Scope == config.ScopeUser {
		_, problems := config.LoadUser(files.User)
		return problems
	}
	_, problems := config.Load(files)
	return problems
}

// Setting returns one setting with its effective value.
func (f *SettingsFile) Setting(name string) (config.Setting, []trellis.Problem, error) {
	k, err := f.Scope.Key(name)
	if err != nil {
		return config.Setting{}, nil, f.unknownKeyError(err, "get", name)
	}
	all, problems := f.Settings()
	for _, s := range all {
		if s.Key == name {
			return s, problems, nil
		}
	}
	return config.Setting{Key: name, Value: k.Zero(), Source: config.FromDefault}, problems, nil // an entry, such as of a map, that no file has
}

// unknownKeyError returns the error for a name that can't be got, set or unset in this file, with hints on what to type instead.
func (f *SettingsFile) unknownKeyError(err error, command, name string, values ...string) error {
	list := "trellis config list"
	other, how := config.ScopeUser, "set per person, not per project"
	if f.Scope == config.ScopeUser {
		list += " --user"
		other, how = config.ScopeProject, "set per project, not per person"
	}
	_, here := f.Scope.Group(name)
	if _, there := other.Group(name); here != nil && there == nil {
		typed := configCommand(command, other, name, values)
		if _, err := other.Key(name); err != nil { // a group, or a setting that is written by hand
			typed = strings.TrimSpace("trellis config list " + scopeFlag(other))
		}
		return WithHints(Usagef("%s is %s", name, how), typed)
	}
	if errors.Is(err, config.ErrByHand) {
		return WithHints(AsKind(ErrUsage, err), "edit "+f.Name, list)
	}
	return WithHints(AsKind(ErrUsage, err), list)
}

// configCommand returns the config command line with these values, for a setting of that scope.
func configCommand(command string, scope config.Scope, name string, values []string) string {
	typed := "trellis config " + command + " " + scopeFlag(scope) + trellis.ShellWord(name)
	if slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "-") }) {
		typed += " --"
	}
	for _, v := range values {
		typed += " " + trellis.ShellWord(v)
	}
	return typed
}

func scopeFlag(scope config.Scope) string {
	if scope == config.ScopeUser {
		return "--user "
	}
	return ""
}

// Set sets a setting to a value, or a list to any number of values, and reports whether that changed the file. An invalid value
// is an error, and the file is left unchanged.
func (f *SettingsFile) Set(name string, values []string) (changed bool, err error) {
	k, err := f.Scope.Key(name)
	if err != nil {
		return false, f.unknownKeyError(err, "set", name, values...)
	}
	if k.List && len(values) == 1 {
		if items := yamledit.Items(values[0]); len(items) > 0 {
			return false, WithHints(Usagef("%s: %s is one value, and a list takes each by itself", name, values[0]), configCommand("set", f.Scope, name, items))
		}
	}
	v, err := valueOf(k, values)
	if err != nil {
		return false, err
	}
	return f.edit(k, func(data []byte) ([]byte, error) { return yamledit.Set(data, k.Path, v) })
}

// valueOf converts what a person typed to a value of the setting's kind.
func valueOf(k config.Key, values []string) (yamledit.Value, error) {
	if i := slices.IndexFunc(values, func(s string) bool { return strings.ToValidUTF8(s, "") != s }); i >= 0 {
		return yamledit.Value{}, Usagef("%s: %q is not UTF-8", k.Name, values[i])
	}
	switch {
	case k.List && slices.Equal(values, []string{"[]"}):
		return yamledit.List(nil), nil
	case k.List:
		return yamledit.List(values), nil
	case len(values) != 1:
		return yamledit.Value{}, WithHints(Usagef("%s takes one value, not %d", k.Name, len(values)), "quote a value that has spaces in it")
	case k.IsText():
		return yamledit.Text(values[0]), nil
	}
	return yamledit.Word(values[0]), nil
}

// Unset removes a setting, or a group of them, from the file, and reports whether it was there.
func (f *SettingsFile) Unset(name string) (changed bool, err error) {
	k, err := f.Scope.Group(name)
	if err != nil {
		return false, f.unknownKeyError(err, "unset", name)
	}
	return f.edit(k, func(data []byte) ([]byte, error) { return yamledit.Unset(data, k.Path) })
}

// edit changes the file, unless that would introduce a mistake that is not there already.
func (f *SettingsFile) edit(k config.Key, change func([]byte) ([]byte, error)) (changed bool, err error) {
	_, unread := f.readFiles()
	if i := slices.IndexFunc(unread, func(p trellis.Problem) bool { return p.File == f.Name }); i >= 0 {
		return false, &unread[i]
	}
	if err := f.disk.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return false, err
	}
	var before, after []byte
	err = f.disk.Edit(f.path, func(data []byte) (_ []byte, err error) {
		before = slices.Clone(data)
		after, err = f.applyChange(k, data, change)
		return after, err
	})
	changed = err == nil && string(before) != string(after)
	if changed {
		f.recordChange(before, after)
	}
	return changed, err
}

func (f *SettingsFile) applyChange(k config.Key, data []byte, change func([]byte) ([]byte, error)) ([]byte, error) {
	old := trellis.Errors(f.check(f.filesWith(data)))
	now, err := change(data)
	switch {
	case errors.Is(err, yamledit.ErrLayout):
		return nil, WithHints(Usagef("%s: %w", k.Name, err), f.Name)
	case err != nil && len(old) > 0:
		return nil, &old[0]
	case err != nil:
		return nil, AsKind(ErrUsage, fmt.Errorf("%s: %w", f.Name, err))
	}
	for _, problem := range trellis.Errors(f.check(f.filesWith(now))) {
		if slices.ContainsFunc(old, func(was trellis.Problem) bool { return was.Message == problem.Message }) {
			continue
		}
		hints := []string{"trellis config list"}
		if problem.Hint != "" {
			hints = []string{problem.Hint}
		}
		return nil, WithHints(Usagef("%s; %s stays as it is", problem.Message, f.Name), hints...)
	}
	return now, nil
}

// recordSettings records what a command's change added to the settings as made by a person of this clone.
func (g *TrustGate) recordSettings(before, after []byte) error {
	j, err := g.Judge()
	if err != nil {
		return err
	}
	return recordNew(j, subject.Settings(), configYAML, before, after)
}
