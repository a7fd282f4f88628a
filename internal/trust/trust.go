// Package trust decides whether what a checkout would have this machine run was written, merged or agreed to by whoever works
// here. It shows nothing and asks nobody.
//
// A [Subject] is a part of a checkout that would run or steer something: its settings, a task, an objective. Its files
// contain [Item]s: a command, a step, a program, a setting that lowers protection. Package subject below this one reads them.
// A [Judge] finds out where each item is from and returns a [Verdict]; nothing of a subject may run while [Verdict.Err]
// returns an error, an *[UntrustedError]. The findings are stored in the user's [Ledger], outside every checkout, so that
// judging the same items again runs no git, and what git does later changes nothing.
//
// An item is trusted if somebody here agreed to it, if a command of Trellis made it here at a person's request, if the same
// file of the trusted branch has it, or if it was made in this clone: no commit from elsewhere has it, and it is in no commit
// at all or in one that a reflog says was committed here. Reflogs do not come by git. Commits that rebase, cherry-pick,
// revert or am make do not by themselves count as made here, since their content may be from elsewhere; neither do commits of agents.
//
// A base commit is judged in the same way: by each of its commits that the trusted branch does not have.
package trust

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Kind is the kind of an item.
type Kind string

// The kinds of items. A Protection is a setting that guards this machine, and a Start says when a task may run: of each of
// them only the value that was trusted last counts, so that a commit of somebody else can't bring back an old and weaker one.
const (
	Command     Kind = "command" // in settings: verify, setup
	Hook        Kind = "hook"
	Notify      Kind = "notify"
	Agent       Kind = "agent" // a program or an address that plays roles, or who plays them
	Program     Kind = "program"
	Step        Kind = "step" // in a plan
	Criterion   Kind = "criterion"
	Condition   Kind = "precondition"
	Rollback    Kind = "rollback"
	Verify      Kind = "verify" // in a task
	Requirement Kind = "requirement"
	Context     Kind = "context"
	Prompt      Kind = "prompt"
	Base        Kind = "base"
	Advance     Kind = "auto_advance"
	Setting     Kind = "setting"
	Protection  Kind = "protection"
	Approval    Kind = "approval"
	Start       Kind = "start"
)

// Runs reports whether items of the kind are run by a shell or as a program, and not only read by an agent.
func (k Kind) Runs() bool {
	switch k {
	case Command, Hook, Notify, Agent, Program, Step, Criterion, Condition, Rollback, Verify:
		return true
	}
	return false
}

// Item is one thing that would run or steer something. Trust in it is bound to its kind and text, not to its place; for an
// Approval and a Start, also to their file.
type Item struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // "name: value" for a Protection, and for a Start of which the last value counts
	File string `json:"file"` // path from the root of the checkout
	Line int    `json:"line,omitempty"`
}

// Subject is a part of a checkout that would run or steer something.
type Subject struct {
	Name  string   // "settings", the id of a task, "objective NAME"
	Files []string // files with its items, as paths from the root of the checkout
	Named []string // further files that would run
	// Read returns the items of a file, and further files that it names and that would run. data is nil if the file does not
	// exist. Read uses nothing but its arguments, since it is called with old versions too.
	Read func(file string, data []byte) (items []Item, more []string)
	// Texts are files that were read already, nil for one that does not exist. They are judged as they were read, since
	// another branch may be checked out by now. What is in no commit counts as made here only while it is on the disk.
	Texts map[string][]byte
}

// Of returns the subject with only these files, which were read already.
func (s Subject) Of(texts map[string][]byte) Subject {
	s.Files, s.Named, s.Texts = slices.Sorted(maps.Keys(texts)), nil, texts
	return s
}

// Foreign is an item or a commit that nobody here wrote, merged or agreed to.
type Foreign struct {
	Item   Item      `json:"item"`
	Commit string    `json:"commit,omitempty"` // commit that it came with; "" if unknown
	Author string    `json:"author,omitempty"`
	Date   time.Time `json:"date,omitzero"`
}

// Verdict is the result of judging a subject, or a base commit.
type Verdict struct {
	Subject string    `json:"subject"`
	Items   []Item    `json:"items"`   // all of them, as they are on the disk
	Foreign []Foreign `json:"foreign"` // those that are not trusted
	// Unsaved is why the verdict could not be stored: it holds now, and git is asked again next time.
	Unsaved error `json:"-"`
}

// Trusted reports whether all of the subject may run.
func (v Verdict) Trusted() bool { return len(v.Foreign) == 0 }

// Err returns an *UntrustedError, or nil if all of the subject may run.
func (v Verdict) Err() error {
	if v.Trusted() {
		return nil
	}
	return &UntrustedError{v}
}

// ErrUntrusted matches every *UntrustedError.
var ErrUntrusted = errors.New("not trusted")

// UntrustedError says what would run, and who it is from.
type UntrustedError struct{ Verdict Verdict }

func (e *UntrustedError) Is(target error) bool { return target == ErrUntrusted }

func (e *UntrustedError) Error() string {
	f := e.Verdict.Foreign[0]
	if f.Item.Kind == CommitKind {
		return fmt.Sprintf("%s has %s that nobody here has agreed to, the newest is %s", e.Verdict.Called(), text.Count(len(e.Verdict.Foreign), "commit"), origin(f))
	}
	runs := 0
	for _, f := range e.Verdict.Foreign {
		if f.Item.Kind.Runs() {
			runs++
		}
	}
	what := "would run " + text.Count(runs, "command")
	if runs == 0 {
		what = fmt.Sprintf("says %s to agents or to Trellis", text.Count(len(e.Verdict.Foreign), "thing"))
	}
	if f.Commit != "" {
		what = "came with commit " + origin(f) + " and " + what
	}
	return fmt.Sprintf("%s %s that nobody here has agreed to", e.Verdict.Called(), what)
}

// Called returns the name of the subject for people: the settings, task 11-22-paging, base 3fa2b6c01d.
func (v Verdict) Called() string {
	commit, base := strings.CutPrefix(v.Subject, BasePrefix)
	switch {
	case base:
		return BasePrefix + short(commit)
	case v.Subject == Settings:
		return "the settings"
	case strings.ContainsRune(v.Subject, ' '):
		return v.Subject
	}
	return "task " + v.Subject
}

// Next returns the command that shows what is not trusted, and asks about it.
func (e *UntrustedError) Next() string {
	switch name := e.Verdict.Subject; {
	case name == Settings:
		return "trellis trust --settings"
	case strings.HasPrefix(name, ObjectivePrefix):
		return "trellis trust --objective " + trellis.ShellWord(strings.TrimPrefix(name, ObjectivePrefix))
	case strings.HasPrefix(name, BasePrefix):
		return "trellis trust --base " + trellis.ShellWord(strings.TrimPrefix(name, BasePrefix))
	default:
		return "trellis trust " + trellis.ShellWord(name)
	}
}

// Names of subjects that are not tasks.
const (
	Settings        = "settings"
	ObjectivePrefix = "objective "
	BasePrefix      = "base " // a commit
)

// CommitKind is the kind of the items of a base commit: their text is the commit's hash and its subject.
const CommitKind Kind = "commit"

func origin(f Foreign) string {
	text := short(f.Commit)
	if f.Author != "" {
		text += " by " + f.Author
	}
	return text
}

func short(commit string) string {
	const enough = 10
	return commit[:min(enough, len(commit))]
}
