package trellis

import (
	"fmt"
	"slices"
	"strings"
)

// Status is where a task stands, as task.json spells it.
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

// Statuses are all statuses, in the order a task goes through them.
var Statuses = []Status{Planning, Rejected, Ready, Waiting, InProgress, Paused, Review, Completed, Failed, Cancelled}

// moves is the status table of docs/reference/formats.md. What only a reported-as-finished, rewound or
// foreign task may do through `trellis retry` (to ready) is in it as well: the caller knows which it has.
var moves = map[Status][]Status{
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

// ParseStatus reads a status; "done", which older versions wrote, is completed.
func ParseStatus(s string) (Status, error) {
	if s == "done" {
		return Completed, nil
	}
	if i := slices.Index(Statuses, Status(s)); i >= 0 {
		return Statuses[i], nil // and not the text that s is a part of: who keeps a status keeps no file
	}
	return "", fmt.Errorf("unknown status %q (one of %s)", s, join(Statuses))
}

// Ended reports whether nothing runs any more for a task of this status unless a person asks.
func (s Status) Ended() bool {
	switch s {
	case Rejected, Review, Completed, Failed, Cancelled:
		return true
	}
	return false
}

// Lost reports whether a task of this status came to no good end.
func (s Status) Lost() bool { return s == Rejected || s == Failed || s == Cancelled }

// InWords is the status as people say it of a task: it is "in review".
func (s Status) InWords() string {
	switch s {
	case Review, Planning:
		return "in " + string(s)
	case InProgress:
		return "in progress"
	}
	return string(s)
}

// Move is nil when a task may go from one status to the other, or stays as it is.
func Move(from, to Status) error {
	if from == to || slices.Contains(moves[from], to) {
		return nil
	}
	return &MoveError{from, to}
}

// MoveError is a refused change of status.
type MoveError struct{ From, To Status }

func (e *MoveError) Error() string {
	if len(moves[e.From]) == 0 {
		return fmt.Sprintf("a %s task stays so, it can't become %s", e.From, e.To)
	}
	return fmt.Sprintf("a %s task can't become %s (allowed: %s)", e.From, e.To, join(moves[e.From]))
}

func join(list []Status) string { return strings.Join(Strings(list), ", ") }

// Strings are the words of a list.
func Strings[S ~string](list []S) []string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return words
}
