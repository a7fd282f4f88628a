package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MinVersion is the oldest git that will do. From 2.36 on, what is written also survives a power cut.
const MinVersion = "2.34"

// Version is the version of the git command, with an error when it is too old or missing.
func (r *Repo) Version(ctx context.Context) (string, error) {
	out, err := r.Line(ctx, Command{Args: []string{"version"}})
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(out, "git version "), " ")
	if older(version, MinVersion) {
		return version, fmt.Errorf("git %s is too old, %s or newer is needed", version, MinVersion)
	}
	return version, nil
}

// older compares the numbers at the beginning of two versions; what is no number is new enough.
func older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		if errX != nil || errY != nil {
			return false
		}
		if x != y {
			return x < y
		}
	}
	return false
}

// IdentityError says that git does not know who commits.
type IdentityError struct{ Err error }

func (e *IdentityError) Error() string {
	said := ""
	if e.Err != nil {
		said = "\n(" + e.Err.Error() + ")"
	}
	return `git does not know who you are; type
  git config --global user.name "Your Name"
  git config --global user.email you@example.com` + said
}

func (e *IdentityError) Unwrap() error { return e.Err }

// named keeps git from making up an identity out of user and host name.
var named = []string{"-c", "user.useConfigOnly=true"}

// Identity is "Name <mail>" of who commits are by, or an *IdentityError.
func (r Author) Identity(ctx context.Context) (string, error) {
	if author := r.configured(ctx); author != "" {
		return author, nil
	}
	committer := make(chan error)
	go func() { // two processes take as long as one
		_, err := r.identity(ctx, "GIT_COMMITTER_IDENT")
		committer <- err
	}()
	author, err := r.identity(ctx, "GIT_AUTHOR_IDENT")
	if err := <-committer; err != nil {
		return "", err
	}
	return author, err
}

func (r Author) identity(ctx context.Context, who string) (string, error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: append(named[:len(named):len(named)], "var", who)})
	var failed *Error
	const fatal = 128
	if errors.As(err, &failed) && failed.Code == fatal {
		return "", &IdentityError{err}
	}
	if end := strings.LastIndexByte(out, '>'); end >= 0 {
		out = out[:end+1]
	}
	return out, err
}
