package git

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// pathCache is what FilesAt found out before: what a commit has never changes. A task is checked at each of its
// phases, and asking git each time would be much of what Trellis itself costs. The zero value is empty.
type pathCache struct {
	mu    sync.Mutex
	there map[string]bool // by commit, colon and path
}

// maxMemory is how many answers are kept: those about the tasks that run now.
const maxMemory = 10_000

// recall fills in what is known about the paths and returns the others.
func (m *pathCache) recall(commit string, paths []string, found map[string]bool) (unknown []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range paths {
		there, known := m.there[commit+":"+p]
		if !known {
			unknown = append(unknown, p)
		} else if there {
			found[p] = true
		}
	}
	return unknown
}

func (m *pathCache) keep(commit string, paths []string, found map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.there == nil || len(m.there)+len(paths) > maxMemory {
		m.there = map[string]bool{}
	}
	for _, p := range paths {
		m.there[commit+":"+p] = found[p]
	}
}

// FilesAt tells which of the paths, files or folders, are in a commit. Paths are relative to the root.
func (r History) FilesAt(ctx context.Context, commit string, paths []string) (map[string]bool, error) {
	found := map[string]bool{}
	if !isHash(commit) { // a name, which can mean another commit next time
		return found, r.filesAt(ctx, commit, paths, found)
	}
	unknown := r.files.recall(commit, paths, found)
	if err := r.filesAt(ctx, commit, unknown, found); err != nil {
		return nil, err
	}
	r.files.keep(commit, unknown, found)
	return found, nil
}

// isHash reports whether a name of a commit is its whole hash.
func isHash(name string) bool {
	return (len(name) == 40 || len(name) == 64) && strings.Trim(name, "0123456789abcdef") == ""
}

// filesAt asks git, and adds the paths that are there to found.
func (r History) filesAt(ctx context.Context, commit string, paths []string, found map[string]bool) error {
	const atOnce = 1000 // an argument list has a limit
	there := map[string]bool{}
	for part := range slices.Chunk(paths, atOnce) {
		args := []string{"--literal-pathspecs", "ls-tree", "-t", "-z", "--full-tree", "--name-only", "--end-of-options", commit, "--"}
		for _, p := range part {
			if p = strings.TrimRight(p, "/"); p != "" { // git takes "" for everything
				args = append(args, p)
			}
		}
		out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args})
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			there[name] = name != ""
		}
	}
	for _, p := range paths {
		if there[strings.TrimRight(p, "/")] {
			found[p] = true
		}
	}
	return nil
}

// Files are the paths in a checkout that git has or would take: ignored ones are left out. One that was removed
// and is still known to git may be among them.
func (r History) Files(ctx context.Context, dir string) ([]string, error) {
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"}})
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}
