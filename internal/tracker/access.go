package tracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Access gives access to trackers, with a project's settings and the caller's environment.
type Access struct {
	Settings config.Trackers
	Env      []string // KEY=VALUE
	Dir      string   // a checkout; working directory of gh and token commands
}

// Error says what failed with an issue, and what to type next.
type Error struct {
	err  error
	Next []string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// trackerInfo are the names of the trackers for people, and the variables that hold their tokens.
var trackerInfo = map[Kind]struct {
	name string
	vars []string
}{
	Linear: {"Linear", []string{"LINEAR_API_KEY"}},
	Jira:   {"Jira", []string{"JIRA_API_TOKEN"}},
	GitLab: {"GitLab", []string{"GITLAB_TOKEN"}},
	GitHub: {"GitHub", []string{"GITHUB_TOKEN", "GH_TOKEN"}},
}

// Sites returns the servers in the settings.
func (a *Access) Sites() Sites { return Sites{a.Settings.Jira.URL, a.Settings.GitLab.URL} }

// Read returns the issue that ref refers to.
func (a *Access) Read(ctx context.Context, ref Ref) (*Issue, error) {
	t, tokenOrigin, err := a.open(ctx, ref)
	if err != nil {
		return nil, err
	}
	i, err := t.Issue(ctx, ref.Key)
	return i, a.explain(ctx, "reading", ref, tokenOrigin, err)
}

// CommentOnce writes a comment to an issue, unless it has a comment that contains all marks, and reports whether it did.
func (a *Access) CommentOnce(ctx context.Context, ref Ref, text string, marks ...string) (bool, error) {
	t, tokenOrigin, err := a.open(ctx, ref)
	if err != nil {
		return false, err
	}
	wrote, err := commentOnce(ctx, t, ref.Key, text, marks)
	return wrote, a.explain(ctx, "commenting on", ref, tokenOrigin, err)
}

// commentOnce reads the comments first: a process may have died between writing a comment and recording it here.
func commentOnce(ctx context.Context, t Tracker, key, text string, marks []string) (bool, error) {
	list, err := t.Comments(ctx, key)
	if err != nil {
		return false, err
	}
	for _, c := range list {
		if containsAll(c.Body, marks) {
			return false, nil
		}
	}
	return true, t.Comment(ctx, key, text)
}

func containsAll(s string, marks []string) bool {
	return !slices.ContainsFunc(marks, func(m string) bool { return !strings.Contains(s, m) })
}

// open returns the tracker of an issue, and the origin of its token.
func (a *Access) open(ctx context.Context, ref Ref) (t Tracker, tokenOrigin string, err error) {
	if ref.Kind == GitHub && (a.hasGH() || !strings.Contains(ref.Key, "#")) {
		return &gh{a.Dir, a.Env, ref}, "", nil
	}
	site := ""
	switch ref.Kind {
	case Jira:
		if site = strings.TrimSuffix(cmp.Or(a.Settings.Jira.URL, ref.Site), "/"); site == "" {
			return nil, "", &Error{errors.New("no setting says where Jira is"), []string{"trellis config set trackers.jira.url https://NAME.atlassian.net"}}
		}
	case GitLab:
		site = a.GitLabSite()
	}
	token, tokenOrigin, err := a.tokenSource(ref.Kind).Get(ctx)
	if err != nil {
		return nil, tokenOrigin, a.explain(ctx, "asking for", ref, tokenOrigin, err)
	}
	switch ref.Kind {
	case Linear:
		return newLinear(linearSite, token), tokenOrigin, nil
	case Jira:
		email, _ := proc.Getenv(a.Env, "JIRA_EMAIL")
		return newJira(site, cmp.Or(email, a.Settings.Jira.Email), token), tokenOrigin, nil
	case GitLab:
		return &gitlab{gitlabServer(site, token)}, tokenOrigin, nil
	}
	host, _, _ := githubParts(ref.Key)
	host = cmp.Or(host, strings.TrimPrefix(ref.Site, "https://"))
	if own, _ := proc.Getenv(a.Env, "GH_HOST"); host != "" && host != "github.com" && host != own {
		return nil, tokenOrigin, &Error{fmt.Errorf("the token of %s is given to github.com alone, and not to %s", tokenOrigin, trellis.VisibleLine(host)), []string{"export GH_HOST=" + trellis.ShellWord(host)}}
	}
	return newGitHub(githubBase(host), token), tokenOrigin, nil
}

// GitLabSite returns the address of the only GitLab server that the token is sent to, without a trailing slash: the one in the
// settings, else the public one.
func (a *Access) GitLabSite() string {
	return strings.TrimSuffix(cmp.Or(a.Settings.GitLab.URL, gitlabSite), "/")
}

// GitLab returns a client of the server at GitLabSite, which authenticates with the token, and the token's origin.
func (a *Access) GitLab(ctx context.Context) (*rest.Server, string, error) {
	token, tokenOrigin, err := a.tokenSource(GitLab).Get(ctx)
	return gitlabServer(a.GitLabSite(), token), tokenOrigin, err
}

// tokenSource says where the token of a tracker comes from.
func (a *Access) tokenSource(kind Kind) rest.Token {
	command := map[Kind][]string{Linear: a.Settings.Linear.TokenCommand, Jira: a.Settings.Jira.TokenCommand, GitLab: a.Settings.GitLab.TokenCommand, GitHub: a.Settings.GitHub.TokenCommand}[kind]
	return rest.Token{Vars: trackerInfo[kind].vars, Command: command, Setting: "trackers." + string(kind) + ".token_command", Env: a.Env, Dir: a.Dir}
}

// hasGH reports whether gh is in the PATH, or is the only way to read GitHub since there is no token.
func (a *Access) hasGH() bool {
	if _, err := proc.LookPath("gh", a.Env); err == nil {
		return true
	}
	_, _, err := rest.Token{Vars: trackerInfo[GitHub].vars, Env: a.Env}.Get(context.Background())
	return err != nil && len(a.Settings.GitHub.TokenCommand) == 0
}

// explain adds to an error what was being done with the issue, and what to type next. from is the origin of the token.
func (a *Access) explain(ctx context.Context, doing string, ref Ref, tokenOrigin string, err error) error {
	if err == nil || errors.As(err, new(*Error)) || ctx.Err() != nil {
		return err
	}
	name, variable := trackerInfo[ref.Kind].name, trackerInfo[ref.Kind].vars[0]
	export := "export " + variable + "=…"
	file := "trellis plan --requirement-file FILE, with the issue's text in it"
	var no *rest.Error
	switch {
	case errors.Is(err, rest.ErrNoToken):
		return &Error{fmt.Errorf("%s %s: %w", doing, ref, err), []string{export}}
	case errors.Is(err, rest.ErrNoAnswer):
		return &Error{fmt.Errorf("%s %s: %w", doing, ref, err), []string{"the same again, once the network is back", file}}
	case !errors.As(err, &no):
		if ref.Kind == GitHub && tokenOrigin == "" { // gh's own error message
			return &Error{err, nil}
		}
		return &Error{fmt.Errorf("%s %s: %w", doing, ref, err), nil}
	}
	switch {
	case no.Busy():
		wait := "in a minute"
		if no.Wait > 0 {
			wait = "in " + no.Wait.Round(time.Second).String()
		}
		return &Error{fmt.Errorf("%s %s: %w", doing, ref, err), []string{"the same again, " + wait}}
	case no.Status == http.StatusUnauthorized, no.Status == http.StatusForbidden:
		if reason := no.Header.Get("X-Seraph-LoginReason"); strings.Contains(reason, "AUTHENTICATION_DENIED") {
			return &Error{fmt.Errorf("%s %s: Jira wants a captcha of this account before it takes its token again", doing, ref), []string{"sign in with a browser once, and out: " + cmp.Or(a.Settings.Jira.URL, ref.Site)}}
		}
		next := []string{export}
		if ref.Kind == Jira {
			next = append(next, "export JIRA_EMAIL=…, whose token it is; not for a data center")
		}
		return &Error{fmt.Errorf("%s %s: %s does not take the token of %s: %w", doing, ref, name, tokenOrigin, err), next}
	case no.Status == http.StatusNotFound:
		return &Error{fmt.Errorf("%s has no %s, or the token of %s can't see it", name, ref.Key, tokenOrigin), []string{"open it in a browser with the account of that token"}}
	}
	return &Error{fmt.Errorf("%s %s: %w", doing, ref, err), []string{file}}
}
