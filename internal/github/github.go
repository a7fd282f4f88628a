// Package github reads and changes pull requests and issues through GitHub's own program, gh.
//
// No shell is involved, and text written by people appears in arguments only as the value of a flag. The output of gh is
// untrusted: it is parsed, checked, and limited in length and time.
package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

var (
	// ErrNoProgram means that gh is not in PATH.
	ErrNoProgram error = &forge.Obstacle{Kind: forge.ErrNoProgramOrToken, Said: "there is no gh in PATH (https://cli.github.com)"}
	// ErrNotSignedIn means that gh has no account to work with.
	ErrNotSignedIn error = &forge.Obstacle{Kind: forge.ErrNotSignedIn, Said: "gh is not signed in"}
	// ErrNoRemote means that no remote of the repository is on a host that gh knows.
	ErrNoRemote error = &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: "no remote of the repository is at a place that gh knows"}
)

// Client reads, creates and changes the pull requests and issues of a repository. The zero value works in the current
// directory. Its methods may be called concurrently.
type Client struct {
	Dir    string        // a checkout of the repository
	Env    []string      // environment of gh; nil: this process's
	Marker string        // of the run that calls gh, see proc.Command
	Wall   time.Duration // time limit of one call; 0: a minute
}

// pull is a pull request in the JSON of gh.
type pull struct {
	Number                               int
	URL, State, Title, Body              string
	IsDraft, IsCrossRepository           bool
	HeadRefName, HeadRefOid, BaseRefName string
}

// pullFields are the fields of pull that gh is asked for.
const pullFields = "number,url,state,isDraft,headRefName,headRefOid,baseRefName,title,body,isCrossRepository"

// Error is a failed call of gh, with gh's own message.
type Error struct {
	Args []string // without text written by people
	Code int      // exit code; 124 for a timeout
	Said string
}

func (e *Error) Error() string {
	said := text.OneLine(e.Said)
	switch {
	case e.Code == proc.CodeTimeout:
		said = strings.TrimRight("it gave no answer in time; "+said, "; ")
	case said == "":
		said = fmt.Sprintf("exit code %d", e.Code)
	}
	return "gh " + strings.Join(e.Args, " ") + ": " + said
}

var unansweredMessage = trellis.Pattern(`(?im)^error connecting to |\bHTTP 429\b|\brate limit\b`)

// Unanswered reports whether GitHub asks for no requests for a time, or doesn't respond. gh reports that only in its message.
func (e *Error) Unanswered() bool {
	return e.Code == proc.CodeTimeout || unansweredMessage().MatchString(e.Said)
}

const (
	defaultTimeout  = time.Minute
	maxAnswer       = 8 << 20
	maxStderr       = 16 << 10
	exitNotSignedIn = 4 // exit code of gh if it has no account
)

// rejectedTokenMessage matches the message of gh for an account that the host rejects; the exit code is 1 then.
var rejectedTokenMessage = trellis.Pattern(`(?m)^HTTP 401: |\(HTTP 401\)$`)

// Find returns the pull request of a branch of this repository: the open one, else the newest that was merged or closed; nil if
// there never was one.
func (gh *Client) Find(ctx context.Context, head string) (best *forge.PR, err error) {
	what := "the pull requests of " + head
	var list []pull
	if err := gh.callJSON(ctx, what, &list, "pr", "list", "--head="+head, "--state=all", "--limit=30", "--json="+pullFields); err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.IsCrossRepository || p.HeadRefName != head {
			continue
		}
		pr, err := p.toPR()
		if err != nil {
			return nil, fmt.Errorf("reading what gh says of %s: %w", what, err)
		}
		if best == nil || pr.State == forge.Open && best.State != forge.Open || (pr.State == forge.Open) == (best.State == forge.Open) && pr.Number > best.Number {
			best = pr
		}
	}
	return best, nil
}

func (p *pull) toPR() (*forge.PR, error) {
	switch {
	case p.Number < 1:
		return nil, errors.New("a pull request has no number")
	case !isAddress(p.URL):
		return nil, fmt.Errorf("%q is not an address", p.URL)
	case p.State != forge.Open && p.State != forge.Closed && p.State != forge.Merged:
		return nil, fmt.Errorf("a pull request has the unknown state %q", p.State)
	}
	return &forge.PR{Number: p.Number, URL: p.URL, State: p.State, Draft: p.IsDraft, HeadSHA: p.HeadRefOid, BaseRef: p.BaseRefName, Title: p.Title, Body: p.Body}, nil
}

func isAddress(s string) bool {
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// Create opens a pull request. Callers call Find first. If gh refuses because an interrupted call has opened one meanwhile,
// Create returns that one.
func (gh *Client) Create(ctx context.Context, n forge.NewPR) (*forge.PR, error) {
	args := []string{"pr", "create", "--head=" + n.Head, "--base=" + n.Base, "--title=" + n.Title, "--body-file=-"}
	if n.Draft {
		args = append(args, "--draft")
	}
	out, err := gh.call(ctx, args, n.Body)
	if errors.Is(err, ErrNoProgram) || errors.Is(err, ErrNotSignedIn) || err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err == nil {
		if url, number := createdPR(out); number > 0 {
			return &forge.PR{Number: number, URL: url, State: forge.Open, Draft: n.Draft, BaseRef: n.Base, Title: n.Title, Body: n.Body}, nil
		}
	}
	pr, findErr := gh.Find(ctx, n.Head)
	switch {
	case findErr == nil && pr != nil && pr.State == forge.Open:
		return pr, nil
	case err != nil:
		return nil, err
	case findErr != nil:
		return nil, findErr
	}
	return nil, errors.New("gh pr create: it named no pull request, and there is none")
}

// createdPR returns the address and number of the new pull request from the output of gh: the last that it names.
func createdPR(out string) (url string, number int) {
	const part = "/pull/"
	for _, word := range strings.Fields(out) {
		at := strings.LastIndex(word, part)
		if at < 0 || !isAddress(word) {
			continue
		}
		if n, err := strconv.Atoi(word[at+len(part):]); err == nil && n > 0 {
			url, number = word, n
		}
	}
	return url, number
}

// callJSON runs gh and decodes the JSON that it prints about what.
func (gh *Client) callJSON(ctx context.Context, what string, answer any, args ...string) error {
	out, err := gh.call(ctx, args, "")
	if err != nil {
		return err
	}
	return decode(out, what, answer)
}

func decode(out, what string, answer any) error {
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		return fmt.Errorf("reading what gh says of %s: %w", what, err)
	}
	return nil
}

// call runs gh and returns its standard output.
func (gh *Client) call(ctx context.Context, args []string, stdin string) (string, error) {
	out, stderr := proc.NewCapped(maxAnswer), proc.NewCapped(maxStderr)
	c := proc.Command{Argv: append([]string{"gh"}, args...), Dir: gh.Dir, Env: Environ(gh.Env), Stdout: out, Stderr: stderr, Marker: gh.Marker, Wall: gh.Wall, Grace: time.Second}
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	if c.Wall <= 0 {
		c.Wall = defaultTimeout
	}
	res, err := proc.Run(ctx, c)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", ErrNoProgram
	case err != nil:
		return "", fmt.Errorf("running gh: %w", err)
	case res.Code == exitNotSignedIn, res.Code != 0 && rejectedTokenMessage().MatchString(stderr.String()):
		return "", fmt.Errorf("%w: %s", ErrNotSignedIn, text.OneLine(stderr.String()))
	case res.Code != 0 && (strings.Contains(stderr.String(), "point to a known GitHub host") || strings.HasPrefix(stderr.String(), "no git remotes found")): // gh gives no other sign of it
		return "", fmt.Errorf("%w: %s", ErrNoRemote, text.OneLine(stderr.String()))
	case res.Code != 0:
		return "", &Error{argsForError(args), res.Code, stderr.String()}
	case out.Cut():
		return "", fmt.Errorf("gh %s: the answer is longer than %d bytes", strings.Join(argsForError(args), " "), maxAnswer)
	}
	return out.String(), nil
}

// argsForError returns the arguments as errors show them: without texts, fields and queries.
func argsForError(args []string) (list []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "--title=") && !strings.HasPrefix(a, "--json=") && !strings.HasPrefix(a, "--body") && !strings.HasPrefix(a, "--raw-field=") {
			list = append(list, a)
		}
	}
	return list
}

// Environ returns base with settings that make gh ask no questions, print plain text, and work in the directory in which it is
// run. nil is this process's environment.
func Environ(base []string) (env []string) {
	if base == nil {
		base = os.Environ()
	}
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GH_FORCE_TTY", "CLICOLOR_FORCE", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1")
}
