package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Commit is one entry of a history.
type Commit struct {
	SHA      string
	Author   string // name
	Subject  string
	Trailers []string // "Key: value"
}

// Log is what branch or commit tip has and base has not, newest first; all of tip's history when base is "".
func (r *Repo) Log(ctx context.Context, base, tip string) ([]Commit, error) {
	return r.log(ctx, base, tip)
}

func (r *Repo) log(ctx context.Context, base, tip string, options ...string) ([]Commit, error) {
	args := append([]string{"log", "-z", "--no-show-signature", "--format=%H%x00%an%x00%s%x00%(trailers:only,unfold)"}, options...)
	args = append(args, "--end-of-options", tip)
	if base != "" {
		args = append(args, "^"+base)
	}
	out, _, err := r.git(ctx, call{dir: r.Main, args: append(args, "--")})
	if err != nil || out == "" {
		return nil, err
	}
	const fields = 4
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(f)%fields != 0 {
		return nil, fmt.Errorf("reading git log: %d fields are not %d each", len(f), fields)
	}
	var list []Commit
	for e := range slices.Chunk(f, fields) {
		c := Commit{SHA: e[0], Author: e[1], Subject: e[2]}
		if t := strings.TrimSpace(e[3]); t != "" {
			c.Trailers = strings.Split(t, "\n")
		}
		list = append(list, c)
	}
	return list, nil
}

// FindTrailer is the newest commit that tip has and base has not, and that carries the trailer
// ("Key: value"); "" when there is none. With base "" it may have to read a long history.
func (r *Repo) FindTrailer(ctx context.Context, base, tip, trailer string) (string, error) {
	if base == tip {
		return "", nil
	}
	if tip == base {
		return "", nil // git would take some milliseconds to say the same
	}
	list, err := r.log(ctx, base, tip, "--fixed-strings", "--grep="+trailer)
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if slices.Contains(c.Trailers, trailer) {
			return c.SHA, nil
		}
	}
	return "", nil
}

// IsAncestor reports whether commit old is commit tip or in its history.
func (r *Repo) IsAncestor(ctx context.Context, old, tip string) (bool, error) {
	_, code, err := r.git(ctx, call{dir: r.Main, args: []string{"merge-base", "--is-ancestor", "--end-of-options", old, tip}, fine: []int{1}})
	return code == 0 && err == nil, err
}

// Show is the content of a file at a commit. ErrNotFound when the commit has no such file.
func (r *Repo) Show(ctx context.Context, commit, path string) ([]byte, error) {
	out, _, err := r.git(ctx, call{dir: r.Main, args: []string{"cat-file", "blob", commit + ":" + path}})
	var failed *Error
	if errors.As(err, &failed) {
		found, lookErr := r.FilesAt(ctx, commit, []string{path})
		if lookErr == nil && !found[path] {
			return nil, fmt.Errorf("reading %s at %.12s: %w", path, commit, ErrNotFound)
		}
	}
	return []byte(out), err
}
