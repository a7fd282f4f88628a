// Package specs reads a project's instructions for agents: the guidelines below .trellis/spec and the role files in
// .trellis/agents, both Markdown that may begin with a block of YAML.
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

// Dir is the folder of the guidelines, relative to the top of the repository.
const Dir = ".trellis/spec"

// maxHead is the number of bytes of a page that are read for its front matter and title.
const maxHead = 64 << 10

// Spec is one page of guidelines.
type Spec struct {
	Path        string // relative to the top of the repository, with /
	Description string // from the front matter, otherwise the page's title
	ReadWhen    string // when an agent should read it
	Globs       []string
	Problem     *trellis.Problem // what could not be used of the front matter, or a merge conflict; a warning
}

// List returns the pages below .trellis/spec of the repository at root, sorted by path. A page with bad front matter is listed
// with its problem. A missing .trellis/spec is not an error. A page behind a symlink that leads out of the repository is
// omitted.
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
		list = append(list, parsePage(name, head))
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

// isFile reports whether name is a regular file that is not reached by a symlink out of root.
func isFile(root, name string) bool {
	f, err := durable.OpenBelow(root, name, durable.AnySize)
	if err == nil {
		f.Close()
	}
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// pageKeys are the keys of a page's front matter; other keys belong to someone else.
var pageKeys = []string{"description", "read_when", "globs", "paths"}

func parsePage(name string, data []byte) Spec {
	var front struct {
		Description string   `yaml:"description"`
		ReadWhen    string   `yaml:"read_when"`
		Globs       globList `yaml:"globs"`
		Paths       globList `yaml:"paths"` // the name in Trellis 0.7
	}
	body, lines, problem := decodeFrontMatter(name, data, pageKeys, &front)
	s := Spec{Path: name, Description: text.OneLine(front.Description), ReadWhen: text.OneLine(front.ReadWhen), Problem: cmp.Or(criteria.Conflict(name, data), problem)}
	for _, field := range []struct {
		key   string
		globs globList
	}{{"globs", front.Globs}, {"paths", front.Paths}} {
		for _, g := range field.globs {
			if !doublestar.ValidatePattern(g) {
				s.Problem = &trellis.Problem{File: name, Line: max(lines[field.key], 1), Message: fmt.Sprintf("glob %q is not a pattern", g)}
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

// title returns the first first-level heading.
func title(body []byte) string {
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Matches reports whether one of the page's globs matches a path relative to the top of the repository. A glob without a /
// matches files of that name in any folder, one that ends in / everything in a folder.
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
