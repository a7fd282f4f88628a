package github

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// detailsQuery asks for what gh pr view does not return.
const detailsQuery = `query($owner: String!, $name: String!, $number: Int!, $after: String) { repository(owner: $owner, name: $name) { pullRequest(number: $number) {
  reviewThreads(last: 100) { nodes { isResolved path line originalLine comments(first: 20) { nodes { id body authorAssociation author { login } } } } }
  commits(last: 1) { nodes { commit { statusCheckRollup { contexts(first: 100, after: $after) { pageInfo { hasNextPage endCursor } nodes {
    ... on CheckRun { name isRequired(pullRequestNumber: $number) } ... on StatusContext { context isRequired(pullRequestNumber: $number) } } } } } } }
} } }`

// maxPages is how many pages of checks are read, with 100 each.
const maxPages = 20

// thread is a remark with its replies.
type thread struct {
	IsResolved         bool
	Path               string
	Line, OriginalLine int
	Comments           struct {
		Nodes []struct {
			ID, Body, AuthorAssociation string
			Author                      struct{ Login string }
		}
	}
}

// pullDetails is the answer to detailsQuery: a pull request with one page of its checks.
type pullDetails struct {
	ReviewThreads struct{ Nodes []thread }
	Commits       struct {
		Nodes []struct {
			Commit struct {
				StatusCheckRollup struct {
					Contexts struct {
						PageInfo struct {
							HasNextPage bool
							EndCursor   string
						}
						Nodes []struct { // a check run or a commit status
							Name, Context string
							IsRequired    bool
						}
					}
				}
			}
		}
	}
}

// required returns the names of the required checks, and the cursor of the next page of checks, "" after the last page.
func (pr *pullDetails) required() (names []string, next string) {
	for _, c := range pr.Commits.Nodes {
		checks := c.Commit.StatusCheckRollup.Contexts
		for _, check := range checks.Nodes {
			if check.IsRequired {
				names = append(names, check.Name+check.Context)
			}
		}
		if checks.PageInfo.HasNextPage {
			next = checks.PageInfo.EndCursor
		}
	}
	return names, next
}

// Details reads the remarks and the required checks of the pull request with that address.
func (gh *Client) Details(ctx context.Context, address string) (d forge.Details, err error) {
	p, number, err := parsePullURL(address)
	if err != nil {
		return d, err
	}
	owner, name, _ := strings.Cut(p.name, "/")
	args := []string{"api", "graphql", "--hostname=" + p.host, "--raw-field=owner=" + owner, "--raw-field=name=" + name, "--field=number=" + number, "--raw-field=query=" + detailsQuery}
	for page := 1; page <= maxPages; page++ {
		var answer struct {
			Data struct {
				Repository struct{ PullRequest pullDetails }
			}
		}
		if err := gh.callJSON(ctx, address, &answer, args...); err != nil {
			return d, err
		}
		pr := &answer.Data.Repository.PullRequest
		names, next := pr.required()
		d.Required = append(d.Required, names...)
		if page == 1 {
			for _, t := range pr.ReviewThreads.Nodes {
				d.Remarks = append(d.Remarks, t.remarks()...)
			}
			args = append(args, "")
		}
		if next == "" {
			break
		}
		args[len(args)-1] = "--raw-field=after=" + next
	}
	return d, nil
}

func (t thread) remarks() (list []forge.Remark) {
	if t.IsResolved {
		return nil
	}
	for _, c := range t.Comments.Nodes {
		list = append(list, forge.Remark{ID: c.ID, Author: authorName(c.Author.Login), Path: t.Path, Text: c.Body, Line: cmp.Or(t.Line, t.OriginalLine), Trusted: isTrusted(c.AuthorAssociation)})
	}
	return list
}

var jobURL = trellis.Pattern(`/actions/runs/[0-9]+/job/([0-9]+)`)

// Log returns the output of a check's failed steps, "" if gh can't know it. If GitHub hasn't kept the output of steps
// separately, for which gh before 2.70 prints nothing, Log returns that of the whole job.
func (gh *Client) Log(ctx context.Context, c forge.Check) (string, error) {
	m := jobURL().FindStringSubmatch(c.URL)
	if m == nil {
		return "", nil
	}
	log, err := gh.call(ctx, []string{"run", "view", "--job=" + m[1], "--log-failed"}, "")
	if log != "" || err != nil && !errors.As(err, new(*Error)) {
		return log, err
	}
	p, err := gh.repository(ctx)
	if err != nil {
		return "", err
	}
	return gh.callAPI(ctx, p, "GET", "actions/jobs/"+m[1]+"/logs", nil)
}
