// Package forge has the words in which GitHub and GitLab are spoken of: pull requests, which GitLab calls merge requests, and what checks
// and reviewers say of them.
package forge

import "errors"

// States of a pull request.
const (
	Open   = "OPEN"
	Closed = "CLOSED"
	Merged = "MERGED"
)

// PR is a pull request. Of one that was just made HeadSHA may be unknown.
type PR struct {
	Number  int
	URL     string
	State   string
	Draft   bool
	HeadSHA string
	BaseRef string
	Title   string
	Body    string
}

// NewPR is a pull request to be made.
type NewPR struct {
	Title, Body string
	Base, Head  string // branches
	Draft       bool
}

// What checks and reviewers say of a pull request. "" is nothing yet.
const (
	Passed  = "passed"
	Failed  = "failed"
	Pending = "pending"

	Approved       = "approved"
	ChangesWanted  = "changes_requested"
	ReviewRequired = "review_required"
)

// PRStatus is what checks and reviewers say of a pull request.
type PRStatus struct {
	Checks  string   // Passed, Failed, Pending or ""
	Failing []string // names of the checks that failed
	Review  string   // Approved, ChangesWanted, ReviewRequired or ""
	Failed  []Check  // those of Failing in which a command failed: a change of the code may mend them
	Wanted  []Review // that ask for changes: of each reviewer the last word
	Waits   bool     // some check is not at its end, whatever the others said
	Unread  string   // that there are more checks than were read, which wait; "": all were
}

// Note takes in a check: what all say together is the worst of it, and pending before passed.
func (s *PRStatus) Note(verdict string, c Check, fixable bool) {
	s.Waits = s.Waits || verdict == Pending
	switch {
	case verdict == Failed:
		s.Checks, s.Failing = Failed, append(s.Failing, c.Name)
		if fixable {
			s.Failed = append(s.Failed, c)
		}
	case s.Checks != Failed && (verdict == Pending || s.Checks == ""):
		s.Checks = verdict
	}
}

// OfCommit takes in which commit all that was said is about. Of another one than the pull request had when it was found, as somebody pushed
// meanwhile, more is to come.
func (s *PRStatus) OfCommit(sha string, pr *PR) {
	if pr.HeadSHA != "" && sha != pr.HeadSHA {
		s.Note(Pending, Check{}, false)
	}
}

// Check is a check of a pull request.
type Check struct{ Name, URL string }

// Review is what a reviewer said of a pull request as a whole. Trusted: by somebody who belongs to the repository.
type Review struct {
	ID, Author, Text string
	Trusted          bool
}

// Details are what one wants to know of a pull request only when there is something to be done about it.
type Details struct {
	Remarks  []Remark // that nobody resolved
	Required []string // names of the checks that its base branch requires; none: all count
}

// Remark is what somebody wrote to a line of a pull request. Trusted: somebody who belongs to the repository.
type Remark struct {
	ID, Author, Path, Text string
	Line                   int // 0: to the file as a whole
	Trusted                bool
}

// What keeps a forge from being asked. It is no failure of the work.
var (
	// ErrNoProgramOrToken says that there is nothing to ask the forge with: gh is not installed, or there is no token.
	ErrNoProgramOrToken = errors.New("there is nothing to ask with")
	// ErrNotSignedIn says that the forge does not take the account.
	ErrNotSignedIn = errors.New("not signed in")
	// ErrUnsupportedRepository says that the forge can't have pull requests of the repository: it is another host, has no such project, or
	// the project has them switched off or is archived.
	ErrUnsupportedRepository = errors.New("the repository is elsewhere")
)

// Obstacle is one of these errors in the words of a forge.
type Obstacle struct {
	Kind error
	Said string
}

func (o *Obstacle) Error() string { return o.Said }
func (o *Obstacle) Unwrap() error { return o.Kind }
