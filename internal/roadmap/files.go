package roadmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ErrNotFound says that there is no objective of that name.
var ErrNotFound = errors.New("no such objective")

const (
	folder = ".trellis/objectives"
	suffix = ".md"
	// maxName is the longest name of an objective, in bytes.
	maxName = 100
)

// File is the path of an objective's file below the repository's root.
func File(name string) string { return folder + "/" + name + suffix }

// CheckName says why a name is none that an objective may have: letters and digits, and in between dots, dashes and
// underscores.
func CheckName(name string) error {
	for i, r := range name {
		plain := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && i > 0
		if !plain && (i == 0 || !strings.ContainsRune("._-", r)) {
			return fmt.Errorf("%q is not the name of an objective: letters, digits, dashes, dots and underscores, as in q3-gateway", name)
		}
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name of an objective has 1 to %d bytes", maxName)
	}
	return nil
}

// Names are the names of the objectives below a repository's root, sorted. Files of other names are no objectives.
func Names(root string) ([]string, error) {
	names, _, err := inFolder(root)
	return names, err
}

// Misnamed are warnings of the Markdown files among the objectives that are none because of their names.
func Misnamed(root string) (list []trellis.Problem, err error) {
	_, others, err := inFolder(root)
	for _, name := range others {
		list = append(list, trellis.Problem{File: File(name), Message: "is not read: " + CheckName(name).Error(), Hint: "give the file another name", Warning: true})
	}
	return list, err
}

// inFolder are the names of objectives, and the other names of files that could be meant as some.
func inFolder(root string) (names, others []string, err error) {
	entries, err := durable.ReadDirBelow(root, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing objectives: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		switch {
		case !ok || e.IsDir() || strings.HasPrefix(name, "."):
		case CheckName(name) == nil:
			names = append(names, name)
		default:
			others = append(others, name)
		}
	}
	slices.Sort(names)
	return names, others, nil
}

// Read is the text of an objective's file. A name that leads elsewhere is refused, and so is a link out of the folder or to another objective.
// Errors match ErrNotFound, or are a *trellis.Problem.
func Read(root, name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if problem := checkLink(filepath.Join(root, folder), name+suffix); problem != nil {
		problem.File = File(name)
		return nil, problem
	}
	src, err := durable.ReadBelow(root, File(name), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, trellis.Unread(File(name), err)
	}
	return src, nil
}

// checkLink says why a link is no objective. It may lead to a file below the folder, but to none that is an objective of
// its own: that would be planned twice, under two names.
func checkLink(dir, name string) *trellis.Problem {
	to, err := os.Readlink(filepath.Join(dir, name))
	if err != nil {
		return nil // no link
	}
	refuse := func(why, hint string) *trellis.Problem {
		return &trellis.Problem{Message: fmt.Sprintf("is a link to %s, %s", to, why), Hint: hint}
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("which is not there", "put the file itself into "+folder)
	}
	if err != nil {
		return refuse("which leads nowhere: "+err.Error(), "put the file itself into "+folder)
	}
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return refuse("and its folder can't be found: "+err.Error(), "put the file itself into "+folder)
	}
	in, err := filepath.Rel(home, path)
	if err != nil || !filepath.IsLocal(in) {
		return refuse("which is not in "+folder+": objectives are read from there alone", "put the file itself there")
	}
	if other, ok := strings.CutSuffix(in, suffix); ok && CheckName(other) == nil {
		return refuse("which is an objective of its own", "take the link away, and call it "+other)
	}
	return nil
}

// Load reads and parses an objective; see [Read] and [Parse].
func Load(root, name string) (*Roadmap, error) {
	src, err := Read(root, name)
	if err != nil {
		return nil, err
	}
	return Parse(name, src)
}
