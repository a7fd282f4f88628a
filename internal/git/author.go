package git

import (
	"context"
	"errors"
	"regexp"
	"strings"
)

// Author determines the identity of new commits.
type Author struct{ repo *Repo }

// IdentityError means that git has no usable identity for new commits.
type IdentityError struct{ Err error }

func (e *IdentityError) Error() string {
	detail := ""
	if e.Err != nil {
		detail = "\n(" + e.Err.Error() + ")"
	}
	return `git does not know who you are; type
  git config --global user.name "Your Name"
  git config --global user.email you@example.com` + detail
}

func (e *IdentityError) Unwrap() error { return e.Err }

// identityOptions holds the options that keep git from making up an identity from user and host name.
var identityOptions = []string{"-c", "user.useConfigOnly=true"}

// unknownIdentity matches the errors of git (ident.c) for a name or address that is missing or can't be used.
var unknownIdentity = regexp.MustCompile(`tell me who you are|auto-detection is disabled|empty ident name|disallowed characters`)

// Identity returns the author of new commits as "Name <mail>". If git has no author or no committer it returns an *IdentityError.
func (r Author) Identity(ctx context.Context) (string, error) {
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
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: append(identityOptions[:len(identityOptions):len(identityOptions)], "var", who)})
	if failed, ok := errors.AsType[*Error](err); ok && unknownIdentity.MatchString(failed.Stderr) {
		return "", &IdentityError{err}
	}
	if end := strings.LastIndexByte(out, '>'); end >= 0 {
		out = out[:end+1]
	}
	return out, err
}
