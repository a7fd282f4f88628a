package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Issue is an issue as the gh program tells it. All that people wrote in it is data.
type Issue struct {
	Number   int
	URL      string
	State    string
	Title    string
	Body     string
	Author   account
	Labels   []struct{ Name string }
	Comments []comment
}

type comment struct {
	Author      account
	Body        string
	CreatedAt   string
	IsMinimized bool // hidden by those who look after the project
}

type account struct{ Login string }

const (
	issueFields = "number,title,body,author,comments,url,state,labels"
	issueWall   = time.Minute
	maxGHSays   = 8 * taskdir.MaxRequirement // JSON writes some letters with six
)

// Issue asks gh for the issue that ref names. Nothing of the answer goes through a shell.
func (p *Project) Issue(ctx context.Context, ref string) (*Issue, error) {
	which, err := issueArguments(ref)
	if err != nil {
		return nil, err
	}
	out, told := proc.NewCapped(maxGHSays), proc.NewCapped(64<<10)
	res, err := proc.Run(ctx, proc.Command{Argv: append([]string{"gh", "issue", "view", "--json", issueFields}, which...),
		Dir: p.Root, Env: p.Env.ghEnv(), Stdout: out, Stderr: told, Wall: issueWall, Grace: time.Second})
	said := strings.TrimSpace(told.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, WithHints(Usagef("there is no gh in PATH, the program that --from-issue reads issues with"), "install it from https://cli.github.com, and type gh auth login", "trellis plan --requirement-file FILE, with the issue's text in it")
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, AsKind(ErrUsage, err)
	case res.TimedOut:
		return nil, Usagef("gh issue view %s gave no answer within %s", ref, issueWall)
	case res.Code == 4: // as gh says that nobody is signed in
		return nil, WithHints(Usagef("gh can't show issue %s: %s", ref, said), "gh auth login")
	case res.Code != 0:
		return nil, Usagef("gh can't show issue %s (exit %d): %s", ref, res.Code, said)
	case out.Cut():
		return nil, Usagef("issue %s is longer than the %d bytes that a requirement may have", ref, taskdir.MaxRequirement)
	}
	return parseIssue(ref, out.String())
}

func parseIssue(ref, text string) (*Issue, error) {
	var i Issue
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		return nil, Usagef("reading what gh says of issue %s: %w", ref, err)
	}
	if i.Number < 1 || strings.TrimSpace(i.Title) == "" {
		return nil, Usagef("reading what gh says of issue %s: there is no number or no title", ref)
	}
	return &i, nil
}

var issueRef = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:([A-Za-z0-9_.][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+){1,2})?#)?([1-9][0-9]{0,9})$`)
})

var issuePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[^/]+/[^/]+/issues/[1-9][0-9]*$`) })

// issueArguments are gh's arguments for an issue: 12, #12, owner/repo#12, or its address.
func issueArguments(ref string) ([]string, error) {
	if m := issueRef().FindStringSubmatch(ref); m != nil {
		if m[1] == "" {
			return []string{m[2]}, nil
		}
		return []string{"--repo=" + m[1], m[2]}, nil
	}
	if u, err := url.Parse(ref); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && issuePath().MatchString(strings.TrimSuffix(u.Path, "/")) {
		return []string{(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}).String()}, nil
	}
	return nil, WithHints(Usagef("--from-issue %q names no issue", ref), "--from-issue 12, --from-issue owner/repo#12, or the issue's address")
}

// ghEnv is the caller's environment, with gh told to ask nothing and to print plain JSON.
func (e *Env) ghEnv() (env []string) {
	for _, kv := range e.CommandEnv() {
		if !strings.HasPrefix(kv, "GH_FORCE_TTY=") && !strings.HasPrefix(kv, "CLICOLOR_FORCE=") {
			env = append(env, kv)
		}
	}
	return append(env, "GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1")
}

// Requirement is the issue as a requirement: its number and address, its title, and who wrote what. What people
// wrote is kept to the byte; comments that were hidden are left out.
func (i *Issue) Requirement() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Issue #%d", i.Number)
	if i.State != "" {
		fmt.Fprintf(&b, ", %s", strings.ToLower(i.State))
	}
	fmt.Fprintf(&b, ": %s\n", i.URL)
	if len(i.Labels) > 0 {
		var names []string
		for _, l := range i.Labels {
			names = append(names, l.Name)
		}
		fmt.Fprintf(&b, "Labels: %s\n", strings.Join(names, ", "))
	}
	fmt.Fprintf(&b, "\n# %s\n\nWritten by %s:\n\n%s\n", i.Title, i.Author.name(), orNothing(i.Body))
	shown, _ := i.Shown()
	for n, c := range shown {
		fmt.Fprintf(&b, "\n## Comment %d of %d, by %s, %s\n\n%s\n", n+1, len(shown), c.Author.name(), c.CreatedAt, orNothing(c.Body))
	}
	return b.String()
}

// Shown are those that are shown, and how many are not.
func (i *Issue) Shown() (shown []comment, hidden int) {
	for _, c := range i.Comments {
		if c.IsMinimized {
			hidden++
		} else {
			shown = append(shown, c)
		}
	}
	return shown, hidden
}

// name is who it is; accounts that were deleted have none.
func (a account) name() string {
	if a.Login == "" {
		return "an account that is gone"
	}
	return a.Login
}

func orNothing(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return text
}

// Name is a task's name made of the title, whole words only; of the number where that leaves none.
func (i *Issue) Name() string {
	if name := trellis.ShortName(i.Title); name != "" {
		return name
	}
	return fmt.Sprintf("issue-%d", i.Number)
}
