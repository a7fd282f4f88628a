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

// ErrNotFound means that there is no objective with that name.
var ErrNotFound = errors.New("no such objective")

const (
	folder = ".trellis/objectives"
	suffix = ".md"
	// maxName is the maximum length of an objective's name, in bytes.
	maxName = 100
)

// File returns the path of an objective's file, relative to the root of the repository.
func File(name string) string { return folder + "/" + name + suffix }

// CheckName returns an error unless name is valid for an objective: letters and digits, and between them dots, dashes and
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

// Names returns the names of the objectives in a repository, sorted. Files with invalid names are not objectives.
func Names(root string) ([]string, error) {
	names, _, err := listFolder(root)
	return names, err
}

// Misnamed returns warnings about Markdown files in the folder of objectives that are not read because of their names.
func Misnamed(root string) (list []trellis.Problem, err error) {
	_, others, err := listFolder(root)
	for _, name := range others {
		list = append(list, trellis.Problem{File: File(name), Message: "is not read: " + CheckName(name).Error(), Hint: "give the file another name", Warning: true})
	}
	return list, err
}

// listFolder lists the names of objectives, and the invalid names of files that may be meant as objectives.
func listFolder(root string) (names, others []string, err error) {
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

// Read returns the content of an objective's file. It refuses names and links that lead out of the folder, and links to another
// objective. Errors match ErrNotFound, or are a *trellis.Problem.
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
		return nil, trellis.UnreadableProblem(File(name), err)
	}
	return src, nil
}

// checkLink returns a problem if a link can't be an objective. It may lead to a file in the folder, but not to one that is
// itself an objective: that would be planned twice, under two names.
func checkLink(dir, name string) *trellis.Problem {
	to, err := os.Readlink(filepath.Join(dir, name))
	if err != nil {
		return nil // not a link
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
