package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxNames    = 50_000    // files that are listed
	maxHits     = 200       // lines that a search returns
	maxSearched = 256 << 20 // bytes that a search reads
)

// list returns the files that match a glob, one per line.
func (f *files) list(ctx context.Context, input json.RawMessage) (string, error) {
	var in struct{ Glob string }
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("the input is wrong: %w", err)
	}
	names, err := f.matching(ctx, in.Glob)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, name := range names {
		if b.Len() > maxResult {
			fmt.Fprintf(&b, "(%d more: ask with a narrower glob)\n", len(names)-i)
			break
		}
		b.WriteString(name + "\n")
	}
	if b.Len() == 0 {
		return "(no files)", nil
	}
	return b.String(), nil
}

// search returns the lines that contain a text or match a regular expression.
func (f *files) search(ctx context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Text, Glob string
		Regexp     bool
		IgnoreCase bool `json:"ignore_case"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("the input is wrong: %w", err)
	}
	if in.Text == "" {
		return "", errors.New("text is empty")
	}
	rule := in.Text
	if !in.Regexp {
		rule = regexp.QuoteMeta(rule)
	}
	if in.IgnoreCase {
		rule = "(?i)" + rule
	}
	looked, err := regexp.Compile(rule)
	if err != nil {
		return "", fmt.Errorf("text is not a regular expression: %w", err)
	}
	names, err := f.matching(ctx, in.Glob)
	if err != nil {
		return "", err
	}
	return f.matchingLines(ctx, names, looked)
}

func (f *files) matchingLines(ctx context.Context, names []string, rule *regexp.Regexp) (string, error) {
	var b strings.Builder
	hits, left := 0, maxSearched
	for _, name := range names {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		at, err := f.resolve(name)
		if err != nil || at != filepath.FromSlash(name) { // a symbolic link, or removed since
			continue
		}
		data, err := f.readText(at)
		if err != nil { // not a text file
			continue
		}
		if left -= len(data); left < 0 {
			b.WriteString("(not all files were searched: narrow it down with a glob)\n")
			break
		}
		n := 0
		for line := range bytes.Lines(data) {
			n++
			if !rule.Match(bytes.TrimRight(line, "\r\n")) {
				continue
			}
			if hits++; hits > maxHits || b.Len() > maxResult {
				b.WriteString("(there is more: ask for something rarer, or with a glob)\n")
				return b.String(), nil
			}
			fmt.Fprintf(&b, "%s:%d: %s\n", name, n, matchExcerpt(bytes.TrimSpace(line), rule))
		}
	}
	if b.Len() == 0 {
		return "(nothing found)", nil
	}
	return b.String(), nil
}

// matchExcerpt returns a line, or the part of a long line around the first match.
func matchExcerpt(line []byte, rule *regexp.Regexp) string {
	if len(line) <= maxLineShown {
		return string(line)
	}
	from := 0
	if at := rule.FindIndex(line); at != nil {
		from = max(0, min(at[0]-maxLineShown/4, len(line)-maxLineShown))
	}
	return "…" + strings.ToValidUTF8(string(line[from:from+maxLineShown]), "") + "…"
}

// matching returns the files that match a glob. A glob without a slash matches base names in every folder, a folder matches all
// files in it, and an empty glob matches everything.
func (f *files) matching(ctx context.Context, glob string) ([]string, error) {
	all, err := f.all(ctx)
	if err != nil {
		return nil, err
	}
	glob = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(glob), "./"), "/")
	if glob == "" || glob == "." {
		return all, nil
	}
	if !doublestar.ValidatePattern(glob) {
		return nil, fmt.Errorf("%q is not a glob", glob)
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !doublestar.MatchUnvalidated(glob, name) && !doublestar.MatchUnvalidated(glob+"/**", name) &&
			(strings.Contains(glob, "/") || !doublestar.MatchUnvalidated(glob, path.Base(name)))
	}), nil
}

// all returns the files of the folder, sorted.
func (f *files) all(ctx context.Context) ([]string, error) {
	if f.names != nil {
		return f.names, nil
	}
	var names []string
	var err error
	if f.lister != nil {
		names, err = f.lister(ctx, f.dir)
	}
	if f.lister == nil || err != nil { // not a git worktree
		names, err = f.walk(ctx)
	}
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, isGitPath)
	slices.Sort(names)
	f.names = names[:min(len(names), maxNames)]
	return f.names, nil
}

func (f *files) walk(ctx context.Context) (names []string, err error) {
	err = fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case len(names) == maxNames:
			return fs.SkipAll
		case err != nil && name != ".":
			return fs.SkipDir // an unreadable folder counts as missing
		case err != nil:
			return err
		case d.IsDir() && (isGitPath(name) || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
