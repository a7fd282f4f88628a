package git

import (
	"fmt"
	"strings"
)

// BranchError means that a branch can't be created or used.
type BranchError struct {
	Branch   string
	Taken    string // the branch in the way: itself, or one that would have to be a file and a folder at once
	Tip      string // commit of Taken, if that has commits that the base lacks
	Worktree string // where Taken is checked out
	Owner    string // the task that the worktree was created for, "" if unknown
	Gone     bool   // the folder of Worktree doesn't exist
}

func (e *BranchError) Error() string {
	switch {
	case e.Taken != e.Branch:
		return fmt.Sprintf("branch %s can't be made: there is a branch %s", e.Branch, e.Taken)
	case e.Gone:
		return fmt.Sprintf("branch %s was checked out in %s, which is gone (`git worktree prune` forgets it)", e.Branch, e.Worktree)
	case e.Owner != "":
		return fmt.Sprintf("branch %s is checked out in %s, which is the worktree of task %s", e.Branch, e.Worktree, e.Owner)
	case e.Worktree != "":
		return fmt.Sprintf("branch %s is checked out in %s", e.Branch, e.Worktree)
	case e.Tip != "":
		return fmt.Sprintf("branch %s is there already and has commits that the base has not (tip %.12s)", e.Branch, e.Tip)
	}
	return fmt.Sprintf("branch %s is there already", e.Branch)
}

// maxBranchPart is the maximum length of a part of a branch name in bytes: a part is a file name, to which git's lock appends
// .lock.
const maxBranchPart = 255 - len(".lock")

// CheckBranchName returns an error unless name is a valid branch name, by git check-ref-format and by what git can lock.
func CheckBranchName(name string) error {
	if why := branchFault(name); why != "" {
		return fmt.Errorf("branch name %q %s", name, why)
	}
	return nil
}

func branchFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name[0] == '-':
		return "begins with -"
	case strings.HasPrefix(name, "refs/"): // git takes it for refs/heads/refs/…
		return "is that of a ref: write what follows refs/heads/"
	case name == "HEAD" || name == "@":
		return "is reserved"
	case strings.Contains(name, ".."):
		return "contains .."
	case strings.Contains(name, "@{"):
		return "contains @{"
	case strings.HasSuffix(name, "."):
		return "ends with a dot"
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte(" ~^:?*[\\", c) >= 0 {
			return fmt.Sprintf("contains %q", c)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "begins or ends with a slash, or has two in a row"
		case part[0] == '.':
			return "has a part that begins with a dot"
		case len(part) > maxBranchPart:
			return fmt.Sprintf("has a part of %d bytes, of which %d are the most that git can keep", len(part), maxBranchPart)
		case strings.HasSuffix(part, ".lock"):
			return "has a part that ends with .lock"
		}
	}
	return ""
}
