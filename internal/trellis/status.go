package trellis

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the state of a task, as spelled in task.json.
type Status string

const (
	Planning   Status = "planning"
	Rejected   Status = "rejected"
	Ready      Status = "ready"
	Waiting    Status = "waiting"
	InProgress Status = "in_progress"
	Paused     Status = "paused"
	Review     Status = "review"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// Statuses lists all statuses in the order a task goes through them.
var Statuses = []Status{Planning, Rejected, Ready, Waiting, InProgress, Paused, Review, Completed, Failed, Cancelled}

// transitions is the status table of docs/reference/formats.md. It includes moves to ready that `trellis retry` makes only for tasks
// that are reported as finished, rewound or foreign: the caller checks that.
var transitions = map[Status][]Status{
	Planning:   {Ready, Rejected, Waiting, Cancelled},
	Rejected:   {Planning, Cancelled},
	Ready:      {InProgress, Waiting, Ready, Planning, Rejected, Cancelled},
	Waiting:    {Planning, Ready, InProgress, Rejected, Failed, Cancelled},
	InProgress: {Review, Completed, Waiting, Paused, Failed, Ready, Cancelled},
	Paused:     {InProgress, Failed, Ready, Cancelled},
	Failed:     {Ready, Cancelled},
	Cancelled:  {Ready, Cancelled},
	Review:     {Completed, InProgress, Cancelled, Failed},
	Completed:  nil,
}

// ParseStatus parses a status; "done", which older versions wrote, means completed.
func ParseStatus(s string) (Status, error) {
	if s == "done" {
		return Completed, nil
	}
	if i := slices.Index(Statuses, Status(s)); i >= 0 {
		return Statuses[i], nil // returns the constant, as a substring s would keep the whole file in memory
	}
	return "", fmt.Errorf("unknown status %q (one of %s)", s, joinStatuses(Statuses))
}

// Ended reports whether a task with this status does not run any more unless a person asks for it.
func (s Status) Ended() bool {
	switch s {
	case Rejected, Review, Completed, Failed, Cancelled:
		return true
	}
	return false
}

// EndedBadly reports whether a task with this status ended badly.
func (s Status) EndedBadly() bool { return s == Rejected || s == Failed || s == Cancelled }

// InWords returns the status as it is used in a sentence, such as "in review".
func (s Status) InWords() string {
	switch s {
	case Review, Planning:
		return "in " + string(s)
	case InProgress:
		return "in progress"
	}
	return string(s)
}

// Move returns a *MoveError unless a task may change from one status to the other, or keeps its status.
func Move(from, to Status) error {
	if from == to || slices.Contains(transitions[from], to) {
		return nil
	}
	return &MoveError{from, to}
}

// MoveError is a refused change of status.
type MoveError struct{ From, To Status }

func (e *MoveError) Error() string {
	if len(transitions[e.From]) == 0 {
		return fmt.Sprintf("a %s task stays so, it can't become %s", e.From, e.To)
	}
	return fmt.Sprintf("a %s task can't become %s (allowed: %s)", e.From, e.To, joinStatuses(transitions[e.From]))
}

func joinStatuses(list []Status) string { return strings.Join(Strings(list), ", ") }

// Strings converts a list to strings.
func Strings[S ~string](list []S) []string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return words
}
