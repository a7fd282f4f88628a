package trust

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// blockedError is returned for a program of the checkout that exists but can't be read.
type blockedError struct{ err error }

func (e *blockedError) Error() string { return e.err.Error() }
func (e *blockedError) Unwrap() error { return e.err }

// addLinks replaces a program that can't be read by the links on the way to it, each judged by where the link itself is from,
// and queues the file that they lead to if that is in the checkout.
func (j *Judge) addLinks(list []fileVersion, queue []string, name string) ([]fileVersion, []string) {
	links, end := j.links(name)
	if len(links) == 0 {
		item := Item{Kind: Program, Text: name + " can't be read", File: name}
		return append(list, fileVersion{path: name, named: true, real: name, items: []Item{item}}), queue
	}
	for _, l := range links {
		if !slices.ContainsFunc(list, func(f fileVersion) bool { return f.path == l.path && len(f.items) > 0 }) {
			list = append(list, l)
		}
	}
	if end != "" && !slices.Contains(queue, end) {
		queue = append(queue, end)
	}
	return list, queue
}

// maxLinks is how many links a system follows at most.
const maxLinks = 255

// links returns the links of the checkout on the way to a path, and the path that they lead to, "" if that is outside.
func (j *Judge) links(name string) (list []fileVersion, end string) {
	rest := strings.Split(name, "/")
	for followed := 0; len(rest) > 0 && followed < maxLinks; {
		at := path.Join(end, rest[0])
		if !filepath.IsLocal(at) {
			return list, ""
		}
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(j.Repo.Main, filepath.FromSlash(at)))
		if err != nil {
			end = at
			continue
		}
		followed++
		list = append(list, linkVersion(at, target))
		if filepath.IsAbs(target) {
			if end, target = "", j.relPath(target); target == "" {
				return list, ""
			}
		}
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	return list, end
}

// relPath returns an absolute path relative to the checkout, "" if it is outside.
func (j *Judge) relPath(whole string) string {
	rel, err := filepath.Rel(j.Repo.Main, whole)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return rel
}

// linkVersion returns a link as git stores it: a file that says where it leads.
func linkVersion(name, target string) fileVersion {
	item := Item{Kind: Program, Text: name + " is a link to " + target, File: name}
	return fileVersion{path: name, data: []byte(target), named: true, items: []Item{item}}
}
