package changelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/trellis-tasks/trellis/internal/changelog"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func folder(files map[string]string) fstest.MapFS {
	list := fstest.MapFS{}
	for name, text := range files {
		list[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return list
}

func TestPage(t *testing.T) {
	releases, err := changelog.Read(folder(map[string]string{
		"README.md":            "no change",
		"0.9.0/first.md":       "Added: the first thing\n",
		"0.10.0/b.md":          "Fixed: a leak\n",
		"0.10.0/a.md":          "Changed: the order\n\nOf two lines,\n\nand a third.\n",
		"0.10.0/c.md":          "Fixed: another leak\n",
		"unreleased/coming.md": "Added: what comes\n",
		"unreleased/.gitkeep":  "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := `# Changes

Made from [changes/](changes/), where each change has a file; do not edit it by hand
([CONTRIBUTING](CONTRIBUTING.md#a-line-in-the-changelog)).

## unreleased

### Added

- what comes

## 0.10.0

### Changed

- the order
  Of two lines,

  and a third.

### Fixed

- a leak
- another leak

## 0.9.0

### Added

- the first thing
`
	if got := changelog.Page(releases); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsNoChange(t *testing.T) {
	for name, text := range map[string]string{
		"unreleased/a.md": "the kind is missing\n",
		"unreleased/b.md": "Improved: no such kind\n",
		"unreleased/c.md": "Added: \n",
		"next/d.md":       "Added: a thing\n",
	} {
		_, err := changelog.Read(folder(map[string]string{name: text}))
		var problem *trellis.Problem
		if !errors.As(err, &problem) || problem.Hint == "" {
			t.Errorf("%s: got %v, want a problem with what to do", name, err)
		}
	}
}

// CHANGELOG.md is what changes/ makes; TRELLIS_UPDATE_DOCS=1 writes it.
func TestChangelogIsThatOfChanges(t *testing.T) {
	root := filepath.Join("..", "..")
	releases, err := changelog.Read(os.DirFS(filepath.Join(root, "changes")))
	if err != nil {
		t.Fatal(err)
	}
	page, want := filepath.Join(root, "CHANGELOG.md"), changelog.Page(releases)
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("CHANGELOG.md is not what changes/ makes, %v; TRELLIS_UPDATE_DOCS=1 go test ./internal/changelog writes it", err)
	}
}
