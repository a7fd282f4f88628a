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

// Config holds the settings of a repository's configuration that Trellis needs.
type Config struct {
	extended bool // uses extensions, which go-git does not support
	sha256   bool // object names are SHA-256 hashes
	bare     bool
	worktree string
	hooks    string
	includes []string // as written, also those of includeIf, whatever their condition
	reftable bool     // refs and reflogs are stored in a reftable, not in files
	partial  bool     // partial clone: a remote has objects that are missing here
	remotes  []string
}

func ReadConfig(common string) (s Config, err error) {
	return ReadConfigFile(filepath.Join(common, "config"))
}

// ReadConfigFile reads one configuration file.
func ReadConfigFile(file string) (s Config, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if s, known := configCache.recall(string(data)); known {
		return s, nil
	}
	if s, err = parseConfig(data); err == nil {
		configCache.keep(string(data), s, 50)
	}
	return s, err
}

// configCache caches configurations by their text: the same few files are read before each step of a run.
var configCache memo[Config]

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
	s.reftable = s.extended && strings.EqualFold(c.Section("extensions").Option("refstorage"), "reftable")
	for _, remote := range c.Section("remote").Subsections {
		s.remotes = append(s.remotes, remote.Name)
		s.partial = s.partial || remote.HasOption("promisor") || remote.HasOption("partialclonefilter")
	}
	s.partial = s.partial || c.Section("extensions").HasOption("partialclone")
	s.sha256 = strings.EqualFold(c.Section("extensions").Option("objectformat"), "sha256")
	return s, nil
}

// errAskGit means that only the git command can tell, not go-git.
var errAskGit = errors.New("ask git")

// refFolder is the file system in which go-git reads refs. It follows links as git does. osfs.New would resolve each part of a path
// on each access, in case a link leads out of the folder.
type refFolder struct {
	billy.Filesystem // nil: go-git only calls the methods below
	dir              string
}

func (f refFolder) Join(parts ...string) string { return filepath.Join(parts...) }

func (f refFolder) Open(name string) (billy.File, error) {
	return osfs.Default.Open(filepath.Join(f.dir, name))
}

func (f refFolder) Stat(name string) (fs.FileInfo, error) {
	return osfs.Default.Stat(filepath.Join(f.dir, name))
}

func (f refFolder) ReadDir(name string) ([]fs.FileInfo, error) {
	return osfs.Default.ReadDir(filepath.Join(f.dir, name))
}
