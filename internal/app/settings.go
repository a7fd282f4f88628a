package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
)

// Settings are where the settings of a project are read.
type Settings struct {
	Root     string // of the project
	Kept     string // the folder below which those that were trusted last are kept, when they are in force; "": Root's count
	UserFile string // the person's settings for all projects

	judged *config.Files // the settings that were judged, which count whatever stands there by now; nil: those on the disk
}

// Dir is the folder that the settings are read below.
func (s Settings) Dir() string { return cmp.Or(s.Kept, s.Root) }

// Files are the files that say them, as they are now.
func (s Settings) Files() config.Files {
	files, _ := s.Read()
	return files
}

// Read also tells of a file that is there and can't be read: its settings, a sandbox say, would be taken for unset.
func (s Settings) Read() (f config.Files, problems []trellis.Problem) {
	if s.judged != nil {
		return *s.judged, nil
	}
	read := func(name string) config.File {
		data, err := durable.ReadBelow(s.Dir(), ".trellis/"+name, durable.MaxDocument) // none: the defaults
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, *trellis.Unread(".trellis/"+name, err))
		}
		return config.File{Name: ".trellis/" + name, Data: data}
	}
	f = config.Files{Root: s.Root, Config: read("config.yaml"), Worktree: read("worktree.yaml")}
	var unread *trellis.Problem
	if f.User, unread = readUser(s.UserFile); unread != nil {
		problems = append(problems, *unread)
	}
	return f, problems
}

// stayWith reports whether the settings that were judged are those of files that were read before.
func (s Settings) stayWith(read map[string]string) bool {
	return s.judged != nil && string(s.judged.Config.Data) == read[s.judged.Config.Name] && string(s.judged.Worktree.Data) == read[s.judged.Worktree.Name]
}

// readUser reads a person's settings. They may be a link, as people keep such files elsewhere.
func readUser(path string) (config.File, *trellis.Problem) {
	if path == "" {
		return config.File{}, nil
	}
	f := config.File{Name: path}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		f.Data, err = durable.Read(real, durable.MaxDocument)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, trellis.Unread(path, err)
	}
	return f, nil
}

// Config reads the settings of the project, and what is wrong with them. What is not there has its default. Where programs
// run in a sandbox, git is hardened from then on against what they left.
func (p *Project) Config() (*config.Config, []trellis.Problem) {
	files, unread := p.Settings.Read()
	c, problems := config.Load(files)
	p.harden(c)
	if p.Settings.Kept == "" && len(unread) == 0 {
		unread = removed(p.Repo, files)
	}
	return c, append(unread, problems...)
}

// SettingsGone says that the settings of a project are not there, and should be.
func SettingsGone(p *Project) []trellis.Problem { return removed(p.Repo, p.Settings.Files()) }

// removed says of settings that were committed, and are not there any more, that they are not just unset: without them no checks
// run, and an agent is whichever is found. git that does not answer says nothing.
func removed(repo *git.Repo, files config.Files) (problems []trellis.Problem) {
	if files.Config.Data != nil || repo == nil { // outside of a repository, where eval can be, nothing was committed
		return nil
	}
	ctx := context.Background()
	head, err := repo.Refs().Head(ctx, repo.Main)
	if err != nil {
		return nil
	}
	if committed, _ := repo.History().FilesAt(ctx, head, []string{configYAML}); committed[configYAML] {
		problems = append(problems, trellis.Problem{File: configYAML, Message: "the last commit has it, and the checkout has not: without it the settings would be the defaults, and no checks run",
			Hint: bringBack(ctx, repo, configYAML) + ", or commit that it is gone"})
	}
	return problems
}

// bringBack is the command that brings back a file that the last commit has and the checkout has not. What a sparse checkout
// leaves out, git checkout does not know.
func bringBack(ctx context.Context, repo *git.Repo, path string) string {
	say := func(args ...string) string {
		said, _ := repo.Line(ctx, git.Command{Dir: repo.Main, Args: args}) // git that does not answer says nothing
		return said
	}
	set := func(key string) bool { return say("config", "--type=bool", "--get", key) == "true" }
	switch {
	case !strings.HasPrefix(say("ls-files", "-t", "--", path), "S "):
		return repo.Typed() + " checkout HEAD -- :/" + path
	case !set("core.sparseCheckout"): // git was told to leave out this file alone
		return repo.Typed() + " checkout --ignore-skip-worktree-bits HEAD -- :/" + path
	case set("core.sparseCheckoutCone"):
		return repo.Typed() + " sparse-checkout add " + filepath.Dir(path)
	}
	return repo.Typed() + " sparse-checkout add /" + path
}

// CheckedConfig is p.Config with warnings about folders that the settings name and the main checkout lacks, or does not ignore.
func CheckedConfig(ctx context.Context, p *Project) (*config.Config, []trellis.Problem) {
	c, problems := p.Config()
	if len(trellis.Errors(problems)) > 0 {
		return c, problems // of which others may follow
	}
	there := func(path string) bool {
		st, err := os.Stat(filepath.Join(p.Root, path))
		return err == nil && st.IsDir()
	}
	ignored := func(path string) bool {
		ignores, err := p.Repo.Index().Ignores(ctx, p.Root, path)
		return ignores || err != nil // git that does not answer warns of nothing
	}
	return c, append(problems, p.Settings.Files().Folders(there, ignored)...)
}

func (p *Project) harden(c *config.Config) {
	if c.Sandbox != sandbox.Off {
		p.Repo.Harden()
	}
}

// ValidConfig is the settings of the project for what needs them valid. Warnings are for init, validate and doctor to say.
func (p *Project) ValidConfig() (*config.Config, error) {
	c, problems := p.Config()
	if errs := trellis.Errors(problems); len(errs) > 0 {
		err := error(&PlacesError{errors.New(errs[0].Error()), errs})
		if len(HintsOf(err)) == 0 {
			err = WithHints(err, "trellis doctor")
		}
		return nil, err
	}
	return c, nil
}

// PackageOf is the package of a new task: the one that --package names, or default_package. A project that lists none
// may have guidelines for one all the same.
func (p *Project) PackageOf(c *config.Config, name string) (string, error) {
	if name != "" && len(c.Packages) == 0 && filepath.IsLocal(name) {
		if st, err := os.Stat(filepath.Join(p.Root, specs.Dir, name)); err == nil && st.IsDir() {
			return name, nil
		}
	}
	known, _, err := c.Package(name)
	if err != nil {
		return "", WithHints(Usagef("--package: %w", err), "name it under packages in .trellis/config.yaml")
	}
	return known, nil
}

// PackageIn is the package that a text names, "" when it names none or several.
func (p *Project) PackageIn(text string) (name string) {
	c, _ := p.Config()
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;:.!?()[]", r) })
	for known := range c.Packages {
		if !slices.Contains(words, known) {
			continue
		}
		if name != "" {
			return ""
		}
		name = known
	}
	return name
}
