package rest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Token says where the token of a server comes from: the first environment variable that has one, else a command.
type Token struct {
	Vars    []string // names of variables
	Command []string // a program and its arguments, whose first line of output is the token; empty: none
	Setting string   // setting that names the command, for errors
	Env     []string // KEY=VALUE
	Dir     string   // where the command runs
	Wall    time.Duration
}

const (
	tokenWall = 30 * time.Second
	maxToken  = 16 << 10
)

// ErrNoToken is returned if nobody gave a token.
var ErrNoToken = errors.New("there is no token")

// Get returns the token, and where it comes from. What the command prints is never shown, whatever happens.
func (t Token) Get(ctx context.Context) (token, from string, err error) {
	for _, name := range t.Vars {
		if v, _ := proc.Getenv(t.Env, name); strings.TrimSpace(v) != "" {
			token, err = checkToken(strings.TrimSpace(v), name)
			return token, name, err
		}
	}
	token, err = t.runCommand(ctx)
	return token, t.Setting, err
}

// runCommand runs the command.
func (t Token) runCommand(ctx context.Context) (string, error) {
	if len(t.Command) == 0 {
		return "", fmt.Errorf("%w: neither in %s nor by %s", ErrNoToken, strings.Join(t.Vars, " or "), t.Setting)
	}
	out := proc.NewCapped(maxToken)
	c := proc.Command{Argv: t.Command, Dir: t.Dir, Env: t.Env, Stdout: out, Wall: t.Wall, Grace: time.Second}
	if c.Wall <= 0 {
		c.Wall = tokenWall
	}
	res, err := proc.Run(ctx, c)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s: there is no program %s", t.Setting, t.Command[0])
	case err != nil:
		return "", fmt.Errorf("%s: %w", t.Setting, err)
	case res.TimedOut:
		return "", fmt.Errorf("%s: %s printed no token within %s", t.Setting, t.Command[0], c.Wall)
	case res.Code != 0:
		return "", fmt.Errorf("%s: %s exited with %d", t.Setting, t.Command[0], res.Code)
	}
	first, _, _ := strings.Cut(out.String(), "\n")
	if first = strings.TrimSpace(first); first == "" {
		return "", fmt.Errorf("%w: the first line that %s (%s) prints is empty", ErrNoToken, t.Command[0], t.Setting)
	}
	return checkToken(first, t.Setting)
}

// checkToken returns an error for a token that can't be sent in a header. The error does not show the token.
func checkToken(token, from string) (string, error) {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s holds something else than a token: it has a letter that none has", from)
	}
	return token, nil
}
