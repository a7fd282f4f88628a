package github

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/trellis-tasks/trellis/internal/forge"
)

// Status reads the checks and reviews of a pull request.
func (gh *Client) Status(ctx context.Context, pr *forge.PR) (s forge.PRStatus, err error) {
	var answer struct {
		StatusCheckRollup []check
		ReviewDecision    string
		Reviews           []review
		HeadRefOid        string
	}
	if err := gh.callJSON(ctx, fmt.Sprint("pull request ", pr.Number), &answer, "pr", "view", strconv.Itoa(pr.Number), "--json=statusCheckRollup,reviewDecision,reviews,headRefOid"); err != nil {
		return s, err
	}
	var approved, refused bool // by somebody who belongs to the repository
	for _, r := range latestReviews(answer.Reviews) {
		trusted := isTrusted(r.AuthorAssociation)
		if r.State == changesRequested {
			s.Wanted = append(s.Wanted, forge.Review{ID: r.ID, Author: authorName(r.Author.Login), Text: r.Body, Trusted: trusted})
		}
		refused = refused || trusted && r.State == changesRequested
		approved = approved || trusted && r.State == "APPROVED"
	}
	s.Review = map[string]string{"APPROVED": forge.Approved, changesRequested: forge.ChangesWanted, "REVIEW_REQUIRED": forge.ReviewRequired}[answer.ReviewDecision]
	switch { // if the base branch requires no reviews, there is no decision
	case s.Review != "":
	case refused:
		s.Review = forge.ChangesWanted
	case approved:
		s.Review = forge.Approved
	}
	for _, c := range latestChecks(answer.StatusCheckRollup) {
		s.Note(c.verdict(), forge.Check{Name: c.Name + c.Context, URL: c.DetailsURL + c.TargetURL}, c.fixable())
	}
	s.OfCommit(answer.HeadRefOid, pr)
	return s, nil
}

// check is a check run, or a commit status: the latter has Context and State.
type check struct {
	Name, WorkflowName, Status, Conclusion, DetailsURL string
	Context, State, TargetURL                          string
	StartedAt                                          time.Time
}

// latestChecks returns the checks without those that were run again.
func latestChecks(list []check) []check {
	last := map[string]int{}
	for i, c := range list {
		key := c.WorkflowName + "\n" + c.Name + "\n" + c.Context
		if old, is := last[key]; !is || !c.StartedAt.Before(list[old].StartedAt) {
			last[key] = i
		}
	}
	var left []check
	for _, i := range slices.Sorted(maps.Values(last)) {
		left = append(left, list[i])
	}
	return left
}

func (c check) result() string {
	if c.Context != "" {
		return c.State
	}
	return c.Conclusion
}

func (c check) verdict() string {
	if c.Context == "" && c.Status != "COMPLETED" {
		return forge.Pending
	}
	switch c.result() {
	case "SUCCESS", "NEUTRAL", "SKIPPED":
		return forge.Passed
	case "PENDING", "EXPECTED", "":
		return forge.Pending
	}
	return forge.Failed // anything that is not known to be good
}

// fixable reports whether a change of the code may make a failed check pass. That is not so if it was cancelled, never started,
// or waits for somebody.
func (c check) fixable() bool {
	return slices.Contains([]string{"FAILURE", "TIMED_OUT", "ERROR"}, c.result())
}

// review is a review in the JSON of gh.
type review struct {
	ID                             string
	Author                         struct{ Login string }
	AuthorAssociation, Body, State string
	SubmittedAt                    time.Time
}

const changesRequested = "CHANGES_REQUESTED"

// latestReviews returns the last review of each author that is not merely a comment, in the order in which they were submitted.
func latestReviews(list []review) (words []review) {
	slices.SortStableFunc(list, func(a, b review) int { return a.SubmittedAt.Compare(b.SubmittedAt) })
	last := map[string]int{}
	for i, r := range list {
		if r.State == "APPROVED" || r.State == changesRequested || r.State == "DISMISSED" {
			last[r.Author.Login] = i
		}
	}
	for _, i := range slices.Sorted(maps.Values(last)) {
		words = append(words, list[i])
	}
	return words
}

// authorName returns the name to show for an author. For a deleted account GitHub returns none, and shows "ghost".
func authorName(login string) string { return cmp.Or(login, "ghost") }

// isTrusted reports whether GitHub says that an author belongs to the repository.
func isTrusted(association string) bool {
	return association == "OWNER" || association == "MEMBER" || association == "COLLABORATOR"
}
