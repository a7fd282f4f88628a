package tui

import (
	"context"
	"os/exec"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
)

// World is what a screen shows and what it can change. Its methods may take long, and are called by several goroutines,
// never by the one that draws.
type World interface {
	// Tasks begins to read all tasks.
	Tasks() (*Reading, error)
	// Task is one of them as it is now, with what is only known of a task that is looked at alone.
	// taskdir.ErrNotFound: it is gone.
	Task(id string) (status.Task, error)
	// Events are what happens from now on, until ctx ends, which closes the channel.
	Events(ctx context.Context) (<-chan events.Event, error)
	// Page is what a tab says of a task, and to what of that people say yes or no, the zero value where they can't.
	Page(ctx context.Context, id string, tab Tab) (lines []line, about Subject, err error)
	// Give gives an order: a yes and a no are about something, a no has its reason.
	Give(ctx context.Context, order Order, id string, about Subject, reason string) (Answer, error)
	// Program is what runs in the place of the screen: it gets the terminal.
	Program(kind Program, id string) (*exec.Cmd, error)
}

// Reading is a list of all tasks that is being read.
type Reading struct {
	Of      int    // it has so many
	Watcher string // a few words about it
	// Next reads some more of them, and reports whether there are others. Between tasks it calls yield, which takes a while when
	// keys are pressed. It is called by one goroutine at a time.
	Next func(yield func()) (some []status.Task, more bool)
}

// Subject is what a person says yes or no to, as it was shown.
type Subject struct {
	Step string // path of one that waits; "": the plan
	Hash string
}

// Tab is one of the pages about a task.
type Tab string

// The tabs, in the order in which they stand.
const (
	Now    Tab = "now"
	Plan   Tab = "plan"
	Diff   Tab = "diff"
	Log    Tab = "log"
	Report Tab = "report"
	Proofs Tab = "proofs"
)

// Tabs are all of them.
var Tabs = []Tab{Now, Plan, Diff, Log, Report, Proofs}

// Order is what a task can be told.
type Order string

// The orders.
const (
	Approve Order = "approve"
	Reject  Order = "reject"
	Start   Order = "start"
	Stop    Order = "stop"
	Retry   Order = "retry"
	Cancel  Order = "cancel"
	Deliver Order = "deliver"
)

// Program is something that needs the terminal for itself.
type Program string

// The programs.
const (
	NewPlan Program = "plan"
	Review  Program = "review"
	Edit    Program = "edit"
	Shell   Program = "shell"
	Editor  Program = "editor"
)

// Answer is what came of an order, and the command that comes next, "" for none.
type Answer struct{ Said, Next string }
