// Package trust says whether what a checkout would have this machine run was written, merged or agreed to by whoever works
// here. It shows nothing and asks nobody.
//
// A [Subject] is a thing of a checkout that would run or steer something: its settings, a task, an objective. Its files say
// [Item]s: a command, a step, a program, a setting that lowers protection. Package subject below this one makes them. A
// [Judge] looks where each item is from and gives a [Verdict]; nothing of a subject may run while [Verdict.Err] is an error,
// an *[UntrustedError]. What it found is remembered in the user's [Ledger], outside of every checkout, so that the next look
// at the same items runs no git, and what git does later changes nothing.
//
// An item is trusted when somebody here agreed to it, when a command of Trellis made it here at a person's word, when it
// stands in the same file of the trusted branch, or when it was made in this clone: no commit has it that is from elsewhere,
// and it is in none at all or in one that a reflog says was committed here. Reflogs do not come by git. Commits that
// rebase, cherry-pick, revert or am made do not count as made here, since what is in them may be from elsewhere; neither do
// those of agents.
//
// The judge of a base commit asks the same of each commit that the trusted branch has not.
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

// Kind is what an item is.
type Kind string

// The kinds of items. A Protection is a setting that guards this machine, a Start says when a task may run: of each one only the
// value that was trusted last counts, so that no old and weaker one comes back with somebody else's commit.
const (
	Command     Kind = "command" // of settings: verify, setup
	Hook        Kind = "hook"
	Notify      Kind = "notify"
	Agent       Kind = "agent" // a program or an address that plays roles, or who plays them
	Program     Kind = "program"
	Step        Kind = "step" // of a plan
	Criterion   Kind = "criterion"
	Condition   Kind = "precondition"
	Rollback    Kind = "rollback"
	Verify      Kind = "verify" // of a task
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

// Runs reports whether an item of the kind is run by a shell or as a program, and not read by an agent alone.
func (k Kind) Runs() bool {
	switch k {
	case Command, Hook, Notify, Agent, Program, Step, Criterion, Condition, Rollback, Verify:
		return true
	}
	return false
}

// Item is one thing that would run or steer. What it is trusted by is its kind and text, not the place where it stands; an Approval
// and a Start are such in their file alone.
type Item struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // a Protection is "name: value", and so is a Start of which the last value counts
	File string `json:"file"` // from the root of the checkout
	Line int    `json:"line,omitempty"`
}

// Subject is something of a checkout that would run or steer.
type Subject struct {
	Name  string   // "settings", the id of a task, "objective NAME"
	Files []string // that say so, from the root of the checkout
	Named []string // further files that would run
	// Read is what a file says, and which further files it names that would run. Data is nil where there is no such file. It
	// looks at nothing but that, since it reads old versions too.
	Read func(file string, data []byte) (items []Item, more []string)
	// Texts are files that were read already, nil for one that is not there. They are judged as they were read: another branch
	// may be checked out by now. What is in no commit counts as made here only while it is on the disk.
	Texts map[string][]byte
}

// Of is the subject as far as these files say it, which were read already.
func (s Subject) Of(texts map[string][]byte) Subject {
	s.Files, s.Named, s.Texts = slices.Sorted(maps.Keys(texts)), nil, texts
	return s
}

// Foreign is an item or a commit that nobody here wrote, merged or agreed to.
type Foreign struct {
	Item   Item      `json:"item"`
	Commit string    `json:"commit,omitempty"` // that it came with; "" when nothing tells
	Author string    `json:"author,omitempty"`
	Date   time.Time `json:"date,omitzero"`
}

// Verdict is what is known of a subject, or of a base commit.
type Verdict struct {
	Subject string    `json:"subject"`
	Items   []Item    `json:"items"`   // all of them, as they are on the disk
	Foreign []Foreign `json:"foreign"` // those that are not trusted
	// Unsaved says why the verdict could not be remembered: it holds now, and is found again by git next time.
	Unsaved error `json:"-"`
}

// Trusted reports whether all of the subject may run.
func (v Verdict) Trusted() bool { return len(v.Foreign) == 0 }

// Err is nil, or an *UntrustedError.
func (v Verdict) Err() error {
	if v.Trusted() {
		return nil
	}
	return &UntrustedError{v}
}

// ErrUntrusted is what each *UntrustedError is.
var ErrUntrusted = errors.New("not trusted")

// UntrustedError says what would run, and from whom it is.
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

// Called is what people call the subject: the settings, task 11-22-paging, base 3fa2b6c01d.
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

// Next is the command that shows it, and asks.
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

// Names of subjects that are no tasks.
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
