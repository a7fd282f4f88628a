package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/taskdir"
)

// gh reads GitHub with the program gh, without a shell. The program doesn't return what blocks an issue.
type gh struct {
	dir string
	env []string
	ref Ref // as the caller gave it
}

const (
	ghFields    = "number,title,body,author,comments,url,state,labels"
	ghTimeout   = time.Minute
	maxGHOutput = 8 * taskdir.MaxRequirement // JSON needs six bytes for some characters
)

// ghIssue is an issue in the JSON of gh.
type ghIssue struct {
	Number   int
	URL      string
	State    string
	Title    string
	Body     string
	Author   struct{ Login string }
	Labels   []struct{ Name string }
	Comments []struct {
		Author      struct{ Login string }
		Body        string
		CreatedAt   string
		IsMinimized bool // hidden by the project's maintainers
	}
}

// arguments returns the arguments that name the issue: 12, --repo=owner/repo 12, or its address.
func (g *gh) arguments(key string) []string {
	repo, number, named := strings.Cut(key, "#")
	switch {
	case !named:
		return []string{key}
	case g.ref.Site != "":
		_, repo, number := githubParts(key)
		return []string{g.ref.Site + "/" + repo + "/issues/" + number}
	}
	return []string{"--repo=" + repo, number}
}

// displayName returns the name of the issue in errors.
func (g *gh) displayName(key string) string {
	if g.ref.Site != "" {
		return g.arguments(key)[0]
	}
	return key
}

func (g *gh) Issue(ctx context.Context, key string) (*Issue, error) {
	from, err := g.view(ctx, key, ghFields)
	if err != nil {
		return nil, err
	}
	if from.Number < 1 || strings.TrimSpace(from.Title) == "" {
		return nil, fmt.Errorf("reading what gh says of issue %s: there is no number or no title", g.displayName(key))
	}
	i := &Issue{Ref: Ref{Kind: GitHub, Key: githubKey(from.URL)}, Name: fmt.Sprintf("#%d", from.Number), URL: from.URL, State: from.State, Title: from.Title, Body: from.Body, Author: from.Author.Login}
	for _, l := range from.Labels {
		i.Labels = append(i.Labels, l.Name)
	}
	i.Comments = from.comments(false)
	i.Hidden = len(from.Comments) - len(i.Comments)
	return i, nil
}

// githubKey returns the key of the issue at an address, "" if it isn't the address of an issue.
func githubKey(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	m := pathPatterns()[GitHub].FindStringSubmatch(u.Path)
	switch {
	case m == nil:
		return ""
	case u.Host != "github.com":
		return u.Host + "/" + m[1] + "#" + m[2]
	}
	return m[1] + "#" + m[2]
}

// comments returns the comments, with or without those that are hidden.
func (from *ghIssue) comments(hidden bool) (list []Comment) {
	for _, c := range from.Comments {
		if hidden || !c.IsMinimized {
			list = append(list, Comment{c.Author.Login, c.Body, c.CreatedAt})
		}
	}
	return list
}

func (g *gh) Comments(ctx context.Context, key string) ([]Comment, error) {
	from, err := g.view(ctx, key, "comments")
	if err != nil {
		return nil, err
	}
	return from.comments(true), nil
}

func (g *gh) view(ctx context.Context, key, fields string) (*ghIssue, error) {
	out, err := g.run(ctx, key, "show", "", append([]string{"gh", "issue", "view", "--json", fields}, g.arguments(key)...))
	if err != nil {
		return nil, err
	}
	var from ghIssue
	if err := json.Unmarshal([]byte(out), &from); err != nil {
		return nil, fmt.Errorf("reading what gh says of issue %s: %w", g.displayName(key), err)
	}
	return &from, nil
}

func (g *gh) Comment(ctx context.Context, key, text string) error {
	_, err := g.run(ctx, key, "comment on", text, append([]string{"gh", "issue", "comment", "--body-file=-"}, g.arguments(key)...))
	return err
}

// run runs gh to do something with an issue, and returns its standard output.
func (g *gh) run(ctx context.Context, key, do, stdin string, argv []string) (string, error) {
	out, stderr := proc.NewCapped(maxGHOutput), proc.NewCapped(64<<10)
	c := proc.Command{Argv: argv, Dir: g.dir, Env: github.Environ(g.env), Stdout: out, Stderr: stderr, Wall: ghTimeout, Grace: time.Second}
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	res, err := proc.Run(ctx, c)
	message := strings.TrimSpace(stderr.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoGH
	case err != nil:
		return "", err
	case res.TimedOut:
		return "", fmt.Errorf("gh gave no answer about issue %s within %s", g.displayName(key), ghTimeout)
	case res.Code == 4: // gh has no account
		return "", &Error{fmt.Errorf("gh can't %s issue %s: %s", do, g.displayName(key), message), []string{"gh auth login"}}
	case res.Code != 0:
		return "", fmt.Errorf("gh can't %s issue %s (exit %d): %s", do, g.displayName(key), res.Code, message)
	case out.Cut():
		return "", fmt.Errorf("issue %s is longer than the %d bytes that a requirement may have", g.displayName(key), taskdir.MaxRequirement)
	}
	return out.String(), nil
}

var errNoGH = &Error{errors.New("there is no gh in PATH, the program that --from-issue reads issues with"),
	[]string{"install it from https://cli.github.com, and type gh auth login", "export GITHUB_TOKEN=…, and name the repository: --from-issue github:owner/repo#12", "trellis plan --requirement-file FILE, with the issue's text in it"}}
