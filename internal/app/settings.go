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

// Settings says where the settings of a project are read from.
type Settings struct {
	Root     string // of the project's main checkout
	Kept     string // the folder with the settings trusted last, if they are in force; "": Root's settings are
	UserFile string // the person's settings for all projects

	judged *config.Files // the settings that were judged, which count even if the files have changed since; nil: those on disk
}

// Dir returns the folder below which the settings are read.
func (s Settings) Dir() string { return cmp.Or(s.Kept, s.Root) }

// Files returns the current settings files.
func (s Settings) Files() config.Files {
	files, _ := s.Read()
	return files
}

// Read also reports files that exist but can't be read: their settings, such as a sandbox, would be taken for unset.
func (s Settings) Read() (f config.Files, problems []trellis.Problem) {
	if s.judged != nil {
		return *s.judged, nil
	}
	read := func(name string) config.File {
		data, err := durable.ReadBelow(s.Dir(), ".trellis/"+name, durable.MaxDocument) // a missing file means the defaults
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, *trellis.UnreadableProblem(".trellis/"+name, err))
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

// judgedMatch reports whether the judged settings are those of the files in read.
func (s Settings) judgedMatch(read map[string]string) bool {
	return s.judged != nil && string(s.judged.Config.Data) == read[s.judged.Config.Name] && string(s.judged.Worktree.Data) == read[s.judged.Worktree.Name]
}

// readUser reads a person's settings. The file may be a symbolic link, as some people keep such files elsewhere.
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
		return f, trellis.UnreadableProblem(path, err)
	}
	return f, nil
}

// Config reads the settings of the project, and returns their problems. What is not set has its default. If programs run in a
// sandbox, git is from then on hardened against the files that they left.
func (p *Project) Config() (*config.Config, []trellis.Problem) {
	files, unread := p.Settings.Read()
	c, problems := config.Load(files)
	p.harden(c)
	if p.Settings.Kept == "" && len(unread) == 0 {
		unread = missingSettings(p.Repo, files)
	}
	return c, append(unread, problems...)
}

// MissingSettings returns a problem if the settings of a project were committed but are missing from the checkout.
func MissingSettings(p *Project) []trellis.Problem {
	return missingSettings(p.Repo, p.Settings.Files())
}

// missingSettings returns a problem for settings that were committed but are missing from the checkout, since they are not merely
// unset: without them no checks run, and any agent that is found is used. If git fails, it returns nothing.
func missingSettings(repo *git.Repo, files config.Files) (problems []trellis.Problem) {
	if files.Config.Data != nil || repo == nil { // outside a repository, where eval may run, nothing was committed
		return nil
	}
	ctx := context.Background()
	head, err := repo.Refs().Head(ctx, repo.Main)
	if err != nil {
		return nil
	}
	if committed, _ := repo.History().FilesAt(ctx, head, []string{configYAML}); committed[configYAML] {
		problems = append(problems, trellis.Problem{File: configYAML, Message: "the last commit has it, and the checkout has not: without it the settings would be the defaults, and no checks run",
			Hint: restoreCommand(ctx, repo, configYAML) + ", or commit that it is gone"})
	}
	return problems
}

// restoreCommand returns the command that restores a file that the last commit has and the checkout lacks. git checkout doesn't
// restore what a sparse checkout leaves out.
func restoreCommand(ctx context.Context, repo *git.Repo, path string) string {
	say := func(args ...string) string {
		said, _ := repo.Line(ctx, git.Command{Dir: repo.Main, Args: args}) // a failing git counts as no output
		return said
	}
	set := func(key string) bool { return say("config", "--type=bool", "--get", key) == "true" }
	switch {
	case !strings.HasPrefix(say("ls-files", "-t", "--", path), "S "):
		return repo.CommandPrefix() + " checkout HEAD -- :/" + path
	case !set("core.sparseCheckout"): // git was told to leave out only this file
		return repo.CommandPrefix() + " checkout --ignore-skip-worktree-bits HEAD -- :/" + path
	case set("core.sparseCheckoutCone"):
		return repo.CommandPrefix() + " sparse-checkout add " + filepath.Dir(path)
	}
	return repo.CommandPrefix() + " sparse-checkout add /" + path
}

// CheckedConfig is p.Config plus warnings about folders that the settings name and the main checkout lacks or doesn't ignore.
func CheckedConfig(ctx context.Context, p *Project) (*config.Config, []trellis.Problem) {
	c, problems := p.Config()
	if len(trellis.Errors(problems)) > 0 {
		return c, problems // folder warnings may only be consequences of these
	}
	there := func(path string) bool {
		st, err := os.Stat(filepath.Join(p.Root, path))
		return err == nil && st.IsDir()
	}
	ignored := func(path string) bool {
		ignores, err := p.Repo.Index().Ignores(ctx, p.Root, path)
		return ignores || err != nil // a failing git causes no warning
	}
	return c, append(problems, p.Settings.Files().FolderWarnings(there, ignored)...)
}

func (p *Project) harden(c *config.Config) {
	if c.Sandbox != sandbox.Off {
		p.Repo.Harden()
	}
}

// ValidConfig returns the settings. For invalid ones the error holds a *PlacesError. init, validate and doctor print warnings.
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

// PackageOf returns the package of a new task: the one that --package names, or default_package. A project that lists no
// packages may still have guidelines for one.
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

// PackageIn returns the package that a text names, "" if it names none or several.
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
