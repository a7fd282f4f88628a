// Package specs reads what a project tells its agents: the guidelines below .trellis/spec and the
// role files in .trellis/agents, both markdown that may begin with a block of YAML.
package specs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Dir is where guidelines live, from the top of the repository.
const Dir = ".trellis/spec"

// maxHead is how much of a page is read for its front matter and title.
const maxHead = 64 << 10

// Spec is one page of guidelines.
type Spec struct {
	Path        string // from the top of the repository, with /
	Description string // from the front matter, else the page's title
	ReadWhen    string // when an agent should read it
	Globs       []string
	Problem     *trellis.Problem // what of the front matter could not be used, or a merge conflict; a warning
}

// List are the pages below .trellis/spec of the repository at root, sorted by path. A page with bad
// front matter is listed with its problem. No .trellis/spec is no error, and neither is a page behind
// a symlink that leads out of the repository: it is left out.
func List(root string) ([]Spec, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("listing guidelines: %w", err)
	}
	defer r.Close()
	var list []Spec
	err = fs.WalkDir(r.FS(), Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" || !isFile(root, name) {
			return err
		}
		head, err := durable.ReadHead(root, name, maxHead)
		list = append(list, parse(name, head))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing guidelines: %w", err)
	}
	slices.SortFunc(list, func(a, b Spec) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// isFile reports whether name is a regular file that no symlink leads out of root to.
func isFile(root, name string) bool {
	f, err := durable.OpenBelow(root, name, durable.AnySize)
	if err == nil {
		f.Close()
	}
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// pageKeys are the keys of a page's front matter; others are someone else's.
var pageKeys = []string{"description", "read_when", "globs", "paths"}

func parse(name string, data []byte) Spec {
	var front struct {
		Description string   `yaml:"description"`
		ReadWhen    string   `yaml:"read_when"`
		Globs       patterns `yaml:"globs"`
		Paths       patterns `yaml:"paths"` // as Trellis 0.7 calls them
	}
	body, lines, problem := frontMatter(name, data, pageKeys, &front)
	s := Spec{Path: name, Description: text.OneLine(front.Description), ReadWhen: text.OneLine(front.ReadWhen), Problem: cmp.Or(criteria.Conflict(name, data), problem)}
	for _, said := range []struct {
		key   string
		globs patterns
	}{{"globs", front.Globs}, {"paths", front.Paths}} {
		for _, g := range said.globs {
			if !doublestar.ValidatePattern(g) {
				s.Problem = &trellis.Problem{File: name, Line: max(lines[said.key], 1), Message: fmt.Sprintf("glob %q is not a pattern", g)}
				continue
			}
			s.Globs = append(s.Globs, g)
		}
	}
	if s.Problem != nil {
		s.Problem.Warning = true
	}
	s.Description = cmp.Or(s.Description, title(body))
	return s
}

// title is the first heading of the first level.
func title(body []byte) string {
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Matches reports whether one of the page's globs is about a path, which is given from the top of the
// repository. A glob without a / is about files of that name wherever they lie, one that ends in /
// about all that a folder holds.
func (s Spec) Matches(name string) bool {
	name = path.Clean(name)
	return slices.ContainsFunc(s.Globs, func(glob string) bool {
		glob = strings.TrimPrefix(strings.TrimPrefix(glob, "./"), "/")
		if strings.HasSuffix(glob, "/") {
			glob += "**"
		}
		if !strings.Contains(glob, "/") {
			return doublestar.MatchUnvalidated(glob, path.Base(name))
		}
		return doublestar.MatchUnvalidated(glob, name)
	})
}
