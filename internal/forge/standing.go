package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// What checks and reviewers say of a pull request. "" is nothing yet.
const (
	Passed  = "passed"
	Failed  = "failed"
	Pending = "pending"

	Approved       = "approved"
	ChangesWanted  = "changes_requested"
	ReviewRequired = "review_required"
)

// Standing is how a pull request stands with its checks and its reviewers.
type Standing struct {
	Checks  string   // Passed, Failed, Pending or ""
	Failing []string // names of the checks that failed
	Review  string   // Approved, ChangesWanted, ReviewRequired or ""
}

// Standing asks for the checks and reviews of a pull request.
func (f *Forge) Standing(ctx context.Context, number int) (s Standing, err error) {
	out, err := f.call(ctx, []string{"pr", "view", strconv.Itoa(number), "--json=statusCheckRollup,reviewDecision"}, "")
	if err != nil {
		return s, err
	}
	var answer struct {
		StatusCheckRollup []check
		ReviewDecision    string
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return s, fmt.Errorf("reading what gh says of pull request %d: %w", number, err)
	}
	s.Review = map[string]string{"APPROVED": Approved, "CHANGES_REQUESTED": ChangesWanted, "REVIEW_REQUIRED": ReviewRequired}[answer.ReviewDecision]
	for _, c := range answer.StatusCheckRollup {
		switch verdict := c.verdict(); {
		case verdict == Failed:
			s.Checks, s.Failing = Failed, append(s.Failing, c.Name+c.Context)
		case s.Checks != Failed && (verdict == Pending || s.Checks == ""):
			s.Checks = verdict
		}
	}
	return s, nil
}

// check is a check run, or a commit status, which has a context and a state.
type check struct{ Name, Status, Conclusion, Context, State string }

func (c check) verdict() string {
	said := c.Conclusion
	if c.Context != "" {
		said = c.State
	} else if c.Status != "COMPLETED" {
		return Pending
	}
	switch said {
	case "SUCCESS", "NEUTRAL", "SKIPPED":
		return Passed
	case "PENDING", "EXPECTED", "":
		return Pending
	}
	return Failed // what is not known to be good
}
