package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// version of the format; a journal says it in its first record.
const version = 1

type kind string

const (
	kindRun    kind = "run"    // the first: what the run began with
	kindStart  kind = "start"  // an activity or a wait is entered
	kindDone   kind = "done"   // what came of it
	kindSignal kind = "signal" // a message came in
	kindCancel kind = "cancel" // the run was called off
	kindEnd    kind = "end"    // the last: what came of the run
)

// record is one line of a journal.
type record struct {
	N       int             `json:"n"` // 1, 2, 3, …
	Kind    kind            `json:"k"`
	Version int             `json:"v,omitempty"`    // run
	Run     string          `json:"run,omitempty"`  // run
	Flow    string          `json:"flow,omitempty"` // run
	Code    int             `json:"code,omitempty"` // run
	Build   string          `json:"build,omitempty"`
	Clone   string          `json:"clone,omitempty"` // run: where it began
	ID      string          `json:"id,omitempty"`    // of the call (start, done) or message (signal)
	Name    string          `json:"name,omitempty"`  // of the activity (start) or signal
	Try     int             `json:"try,omitempty"`   // start: nth entry
	In      json.RawMessage `json:"in,omitempty"`    // run, start, signal
	Out     json.RawMessage `json:"out,omitempty"`   // done, end
	Fail    *flow.Failure   `json:"fail,omitempty"`  // done, end
	Signal  int             `json:"sig,omitempty"`   // done: number of the signal record that an Await took
	At      time.Time       `json:"at"`
	Prev    string          `json:"p"` // hash of the line before, "" in the first
	lazy    bool            // done: of an activity that is
}

// synced reports whether the record has to survive a power cut.
func (r *record) synced() bool { return r.Kind != kindStart && !r.lazy }

// hash is what the next line says about this one.
func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:16])
}

// cancelledCode is how a record spells flow.ErrCancelled.
const cancelledCode = "cancelled"

// toFailure is err as records keep it.
func toFailure(err error) *flow.Failure {
	if !errors.Is(err, flow.ErrCancelled) {
		return flow.AsFailure(err)
	}
	var rest []string // what else went wrong; every branch says that it was cancelled
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != flow.ErrCancelled.Error() {
			rest = append(rest, line)
		}
	}
	return &flow.Failure{Code: cancelledCode, Detail: strings.Join(rest, "; ")}
}

// internal is a failure that has no code of its own.
func internal(format string, args ...any) *flow.Failure {
	return flow.AsFailure(fmt.Errorf(format, args...))
}

// fromFailure is the error that flow code gets, the same the first time and from the record.
func fromFailure(f *flow.Failure) error {
	switch {
	case f.Code != cancelledCode:
		copied := *f // flow code may change what it gets
		return &copied
	case f.Detail == "":
		return flow.ErrCancelled
	}
	return fmt.Errorf("%w: %s", flow.ErrCancelled, f.Detail)
}
