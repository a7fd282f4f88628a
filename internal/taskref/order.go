package taskref

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Order is a person's order about a task that another machine has.
type Order struct {
	ID     string    `json:"id"` // unique; valid by ValidName
	Task   string    `json:"task"`
	What   string    `json:"what"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Step   string    `json:"step,omitempty"`
	Hash   string    `json:"hash,omitempty"` // hash of what is approved or rejected
	At     time.Time `json:"at"`
}

func (o Order) ref() string { return orderRefs + o.Task + "/" + o.ID }

// maxOrder is the maximum size of an order that is accepted, in bytes.
const maxOrder = 64 << 10

// Send puts an order on the remote. If one with the same ID exists there, the error is a *LostError.
func (r Remote) Send(ctx context.Context, o Order) error {
	err := r.send(git.Hookless(ctx), o)
	if err != nil {
		return fmt.Errorf("sending %s to %s by %s: %w", o.What, o.Task, r.Name, err)
	}
	return nil
}

func (r Remote) send(ctx context.Context, o Order) error {
	raw, err := text.JSON(o)
	if err != nil {
		return err
	}
	if !o.isValid() || len(raw) > maxOrder {
		return fmt.Errorf("%s is not an order that can be sent: task and id have to be names, and all of it at most %d KB", o.ref(), maxOrder>>10)
	}
	commit, err := r.Repo.EmptyCommit(ctx, "trellis: "+trellis.VisibleLine(o.What)+"\n\n"+string(raw))
	if err != nil {
		return err
	}
	return r.Repo.Remotes().PushRefs(ctx, r.Name, r.timeout(), git.RefMove{Ref: o.ref(), To: commit})
}

func (o Order) isValid() bool { return taskdir.ValidID(o.Task) && trellis.ValidName(o.ID) }

// parseOrder parses an order in a commit whose ref ends in name. Anybody who can push may have written it.
func parseOrder(name, message string) (o Order, ok bool) {
	_, raw, _ := strings.Cut(message, "\n\n")
	if len(raw) > maxOrder || json.Unmarshal([]byte(raw), &o) != nil || !o.isValid() {
		return o, false
	}
	return o, name == o.Task+"/"+o.ID
}
