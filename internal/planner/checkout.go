package planner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/specs"
)

// checkout is the main checkout as planning sees it.
type checkout struct {
	repo     *git.Repo
	lookPath func(program string) error
}

// missing says why a command can't run here, "" if it can.
func (c checkout) missing(command string) string {
	return research.Project{Root: c.repo.Main, LookPath: c.lookPath}.Missing(command)
}

func (c checkout) globFault(glob string) string { return config.GlobFault(c.repo.Main, glob) }

// exists reports whether the main checkout has a path.
func (c checkout) exists(path string) (bool, error) {
	root, err := os.OpenRoot(c.repo.Main)
	if err != nil {
		return false, err
	}
	defer root.Close()
	_, err = root.Stat(filepath.FromSlash(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Limits for what a prompt says about the project, in bytes.
const (
	readmeCap   = 6 << 10
	workflowCap = 8 << 10
	treeCap     = 200 // entries
)

// describe describes the project for prompts: the head of its README, workflow.md, the index of its specs and its top-level tree.
// files reports whether there is anything in the project.
func (c checkout) describe() (text string, files bool) {
	var b strings.Builder
	root := c.repo.Main
	for _, name := range []string{"README.md", "README", "readme.md", "README.rst"} {
		if data, err := durable.ReadBelow(root, name, durable.MaxDocument); err == nil {
			fmt.Fprintf(&b, "# %s\n\n%s\n\n", name, head(data, readmeCap))
			break
		}
	}
	if data, err := durable.ReadBelow(root, ".trellis/workflow.md", durable.MaxDocument); err == nil {
		fmt.Fprintf(&b, "# .trellis/workflow.md\n\n%s\n\n", head(data, workflowCap))
	}
	if index := c.specIndex(); index != "" {
		fmt.Fprintf(&b, "# Guidelines (.trellis/spec)\n\n%s\n", index)
	}
	entries, err := os.ReadDir(root)
	if err == nil {
		b.WriteString("# Top of the tree\n\n")
		for i, e := range entries {
			if e.Name() == ".git" {
				continue
			}
			files = files || e.Name() != ".trellis" && e.Name() != ".gitignore"
			if i < treeCap {
				fmt.Fprintf(&b, "%s%s\n", e.Name(), map[bool]string{true: "/"}[e.IsDir()])
			}
		}
	}
	return b.String(), files
}

func head(data []byte, n int) string {
	if len(data) <= n {
		return strings.ToValidUTF8(string(data), "�")
	}
	return strings.ToValidUTF8(string(data[:n]), "") + "\n[cut here]"
}

func (c checkout) specIndex() string {
	list, err := specs.List(c.repo.Main)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "- %s", s.Path)
		for _, field := range []string{s.Description, s.ReadWhen} {
			if field != "" {
				fmt.Fprintf(&b, ": %s", field)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
