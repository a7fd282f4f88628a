// Package changelog reads changes/, which has a file for each change: in changes/unreleased until a release moves it to the
// folder of its version, such as changes/0.2.0. A file is "Added: what a user sees, in a line", optionally followed by a text.
package changelog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Unreleased is the folder of changes that are not in any release yet.
const Unreleased = "unreleased"

// kinds are the kinds of changes, in the order in which notes show them.
var kinds = []string{"Security", "Changed", "Added", "Fixed", "Removed"}

// Release has the changes of one version.
type Release struct {
	Version string // Unreleased, or a version such as 0.2.0
	changes []change
}

type change struct{ kind, title, text string }

// Read reads changes/. Unreleased changes come first, then the releases, the newest first.
func Read(folder fs.FS) ([]Release, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	var releases []Release
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, err := readRelease(folder, e.Name())
		if err != nil {
			return nil, err
		}
		releases = append(releases, r)
	}
	slices.SortFunc(releases, newestFirst)
	return releases, nil
}

func readRelease(folder fs.FS, version string) (Release, error) {
	r := Release{Version: version}
	if version != Unreleased && !semver.IsValid("v"+version) {
		return r, &trellis.Problem{File: path.Join("changes", version), Message: "this folder is named after no version", Hint: "name it as in 0.2.0, or " + Unreleased}
	}
	names, err := fs.Glob(folder, version+"/*.md")
	if err != nil {
		return r, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return r, fmt.Errorf("reading %s: %w", path.Join("changes", name), err)
		}
		c, err := parse(string(data))
		if err != nil {
			return r, &trellis.Problem{File: path.Join("changes", name), Line: 1, Message: err.Error(), Hint: "begin it as in \"Added: what a user sees\""}
		}
		r.changes = append(r.changes, c)
	}
	return r, nil
}

func parse(text string) (change, error) {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	kind, title, found := strings.Cut(first, ": ")
	if !found || !slices.Contains(kinds, kind) {
		return change{}, fmt.Errorf("the first line names no kind of change (%s)", strings.Join(kinds, ", "))
	}
	if title = strings.TrimSpace(title); title == "" {
		return change{}, errors.New("the change has no title")
	}
	return change{kind, title, strings.TrimSpace(rest)}, nil
}

// Notes returns the notes of a release in Markdown, with its changes grouped by kind.
func (r Release) Notes() string {
	var b strings.Builder
	for _, kind := range kinds {
		head := "### " + kind + "\n\n"
		for _, c := range r.changes {
			if c.kind != kind {
				continue
			}
			b.WriteString(head + "- " + c.title + "\n")
			head = ""
			for line := range strings.Lines(c.text) {
				b.WriteString(strings.TrimRight("  "+line, " \n") + "\n")
			}
		}
		if head == "" {
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Page returns the content of CHANGELOG.md.
func Page(releases []Release) string {
	var b strings.Builder
	b.WriteString("# Changes\n\nMade from [changes/](changes/), where each change has a file; do not edit it by hand\n([CONTRIBUTING](CONTRIBUTING.md#a-line-in-the-changelog)).\n")
	for _, r := range releases {
		if len(r.changes) > 0 {
			b.WriteString("\n## " + r.Version + "\n\n" + r.Notes())
		}
	}
	return b.String()
}

// newestFirst compares releases for sorting; Unreleased comes first.
func newestFirst(a, b Release) int {
	if a.Version == Unreleased || b.Version == Unreleased {
		return cmp.Compare(b.rank(), a.rank())
	}
	return semver.Compare("v"+b.Version, "v"+a.Version)
}

func (r Release) rank() int {
	if r.Version == Unreleased {
		return 1
	}
	return 0
}
