package git

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/format/config"
)

// Config are what we need to know of a repository's configuration.
type Config struct {
	extended bool // uses extensions, which go-git does not know
	sha256   bool // names of objects are that long
	bare     bool
	worktree string
	hooks    string
	includes []string // as they are written, whatever they depend on
	tabled   bool     // refs and their logs are not kept in files
	partial  bool     // a remote has objects that are not here
	remotes  []string
}

func ReadConfig(common string) (s Config, err error) {
	return ReadConfigFile(filepath.Join(common, "config"))
}

// ReadConfigFile reads one file of settings.
func ReadConfigFile(file string) (s Config, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if s, known := parsed.recall(string(data)); known {
		return s, nil
	}
	if s, err = parseConfig(data); err == nil {
		parsed.keep(string(data), s, 50)
	}
	return s, err
}

// parsed are settings by their text: the same few files are read before each step of a run.
var parsed memo[Config]

func parseConfig(data []byte) (s Config, err error) {
	c := config.New()
	if err := config.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil {
		return s, err
	}
	core := c.Section("core")
	s.bare = strings.EqualFold(core.Option("bare"), "true")
	s.worktree, s.hooks = core.Option("worktree"), core.Option("hookspath")
	s.includes = c.Section("include").OptionAll("path")
	for _, on := range c.Section("includeIf").Subsections {
		s.includes = append(s.includes, on.OptionAll("path")...)
	}
	s.extended = c.HasSection("extensions")
	s.tabled = s.extended && strings.EqualFold(c.Section("extensions").Option("refstorage"), "reftable")
	for _, remote := range c.Section("remote").Subsections {
		s.remotes = append(s.remotes, remote.Name)
		s.partial = s.partial || remote.HasOption("promisor") || remote.HasOption("partialclonefilter")
	}
	s.partial = s.partial || c.Section("extensions").HasOption("partialclone")
	s.sha256 = strings.EqualFold(c.Section("extensions").Option("objectformat"), "sha256")
	return s, nil
}

// errAskGit says that go-git can't tell and the git command has to.
var errAskGit = errors.New("ask git")

// folder is what go-git reads refs in, as the system shows it: links are followed as git follows them. osfs.New would take each
// path apart at each look, in case that something leads out of the folder.
type folder struct {
	billy.Filesystem // none: there is only reading
	dir              string
}

func (f folder) Join(parts ...string) string { return filepath.Join(parts...) }

func (f folder) Open(name string) (billy.File, error) {
	return osfs.Default.Open(filepath.Join(f.dir, name))
}

func (f folder) Stat(name string) (fs.FileInfo, error) {
	return osfs.Default.Stat(filepath.Join(f.dir, name))
}

func (f folder) ReadDir(name string) ([]fs.FileInfo, error) {
	return osfs.Default.ReadDir(filepath.Join(f.dir, name))
}
