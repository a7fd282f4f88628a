// Package forge has the types for GitHub and GitLab: pull requests, which GitLab calls merge requests, and what checks and
// reviewers say of them.
package forge

import "errors"

// States of a pull request.
const (
	Open   = "OPEN"
	Closed = "CLOSED"
	Merged = "MERGED"
)

// PR is a pull request. HeadSHA may be "" for one that was just created.
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

// NewPR describes a pull request to create.
type NewPR struct {
	Title, Body string
	Base, Head  string // branches
	Draft       bool
}

// Results of checks and reviews of a pull request. "" means that there is none yet.
const (
	Passed  = "passed"
	Failed  = "failed"
	Pending = "pending"

	Approved       = "approved"
	ChangesWanted  = "changes_requested"
	ReviewRequired = "review_required"
)

// PRStatus is the result of the checks and reviews of a pull request.
type PRStatus struct {
	Checks  string   // Passed, Failed, Pending or ""
	Failing []string // names of the checks that failed
	Review  string   // Approved, ChangesWanted, ReviewRequired or ""
	Failed  []Check  // those of Failing in which a command failed: a change of the code may fix them
	Wanted  []Review // reviews that ask for changes: the last one of each reviewer
	Waits   bool     // some check has not ended, whatever the others said
	Unread  string   // message that there are more checks than were read, which count as pending; "": all were read
}

// Note adds a check: the result of all checks is the worst of them, and pending comes before passed.
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

// OfCommit sets the commit that the checks are for. If it isn't the head of the pull request as that was found, because somebody
// pushed meanwhile, more checks are to come, and the result is pending.
func (s *PRStatus) OfCommit(sha string, pr *PR) {
	if pr.HeadSHA != "" && sha != pr.HeadSHA {
		s.Note(Pending, Check{}, false)
	}
}

// Check is a check of a pull request.
type Check struct{ Name, URL string }

// Review is what a reviewer said of a pull request as a whole. Trusted means that the reviewer belongs to the repository.
type Review struct {
	ID, Author, Text string
	Trusted          bool
}

// Details of a pull request are needed only if there is something to be done about it.
type Details struct {
	Remarks  []Remark // remarks that nobody resolved
	Required []string // names of the checks that the base branch requires; none: all count
}

// Remark is a comment on a line of a pull request. Trusted means that its author belongs to the repository.
type Remark struct {
	ID, Author, Path, Text string
	Line                   int // 0: the file as a whole
	Trusted                bool
}

// Reasons for which a forge can't be asked. They are not failures of the work.
var (
	// ErrNoProgramOrToken means that there is no way to ask the forge: gh is not installed, or there is no token.
	ErrNoProgramOrToken = errors.New("there is nothing to ask with")
	// ErrNotSignedIn means that the forge does not accept the account.
	ErrNotSignedIn = errors.New("not signed in")
	// ErrUnsupportedRepository means that the repository can't have pull requests at the forge: it is on another host, has no
	// project there, or the project has pull requests switched off or is archived.
	ErrUnsupportedRepository = errors.New("the repository is elsewhere")
)

// Obstacle is one of these errors with the message of a forge.
type Obstacle struct {
	Kind error
	Said string
}

func (o *Obstacle) Error() string { return o.Said }
func (o *Obstacle) Unwrap() error { return o.Kind }
