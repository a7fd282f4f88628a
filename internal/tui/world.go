package tui

import (
	"context"
	"os/exec"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
)

// Backend is what a screen shows and what it can change. Its methods may take long, and are called by
// several goroutines, never by the one that draws.
type Backend interface {
	// Tasks begins to read all tasks.
	Tasks() (*Reading, error)
	// Task returns a task in its current state, with what only [status.Reader.Task] sets. If the
	// task is gone, the error matches taskdir.ErrNotFound.
	Task(id string) (status.Task, error)
	// Events returns what happens from now on. The channel is closed when ctx ends.
	Events(ctx context.Context) (<-chan events.Event, error)
	// Page returns what a tab shows of a task, and what an approval or rejection there is about, the zero value for nothing.
	Page(ctx context.Context, id string, tab Tab) (lines []line, about Subject, err error)
	// Give gives an order: an approval and a rejection are about something, a rejection has a reason.
	Give(ctx context.Context, order Order, id string, about Subject, reason string) (Answer, error)
	// Program returns the program that runs in place of the screen, and gets the terminal.
	Program(kind Program, id string) (*exec.Cmd, error)
}

// Reading is a list of all tasks that is being read.
type Reading struct {
	Of      int    // how many tasks it has
	Watcher string // a few words about the watcher
	// Next reads some more tasks, and reports whether there are others. Between tasks it calls
	// yield, which pauses while keys are pressed. It is called by one goroutine at a time.
	Next func(yield func()) (some []status.Task, more bool)
}

// Subject is what a person approves or rejects, as it was shown.
type Subject struct {
	Step string // path of a step that waits; "": the plan
	Hash string
}

// Tab is one of the pages about a task.
type Tab string

// The tabs, in the order in which they are shown.
const (
	Now    Tab = "now"
	Plan   Tab = "plan"
	Diff   Tab = "diff"
	Log    Tab = "log"
	Report Tab = "report"
	Proofs Tab = "proofs"
)

// Tabs are all tabs.
var Tabs = []Tab{Now, Plan, Diff, Log, Report, Proofs}

// Order is an order that a task can be given.
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

// Program is a program that needs the terminal for itself.
type Program string

// The programs.
const (
	NewPlan Program = "plan"
	Review  Program = "review"
	Edit    Program = "edit"
	Shell   Program = "shell"
	Editor  Program = "editor"
)

// Answer is the result of an order, and the command that comes next, "" for none.
type Answer struct{ Said, Next string }
