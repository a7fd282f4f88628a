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

// version is the version of the format; it is stored in the first record of a journal.
const version = 1

type kind string

const (
	kindRun    kind = "run"    // the first record: the Spec of the run
	kindStart  kind = "start"  // an activity or a wait is entered
	kindDone   kind = "done"   // the outcome of an activity or a wait
	kindSignal kind = "signal" // a message came in
	kindCancel kind = "cancel" // the run was called off
	kindEnd    kind = "end"    // the last record: the outcome of the run
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
	Clone   string          `json:"clone,omitempty"` // run: the clone in which it began
	ID      string          `json:"id,omitempty"`    // id of the call (start, done) or message (signal)
	Name    string          `json:"name,omitempty"`  // name of the activity (start) or signal
	Try     int             `json:"try,omitempty"`   // start: nth entry
	In      json.RawMessage `json:"in,omitempty"`    // run, start, signal
	Out     json.RawMessage `json:"out,omitempty"`   // done, end
	Fail    *flow.Failure   `json:"fail,omitempty"`  // done, end
	Signal  int             `json:"sig,omitempty"`   // done: number of the signal record that an Await took
	At      time.Time       `json:"at"`
	Prev    string          `json:"p"` // hash of the previous line, "" in the first
	lazy    bool            // done: the activity is lazy
}

// mustSync reports whether the record has to be on disk before the flow continues.
func (r *record) mustSync() bool { return r.Kind != kindStart && !r.lazy }

// hash returns the hash of a line, which the next line contains.
func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:16])
}

// cancelledCode is the code in records for flow.ErrCancelled.
const cancelledCode = "cancelled"

// toFailure returns err in the form in which records store it.
func toFailure(err error) *flow.Failure {
	if !errors.Is(err, flow.ErrCancelled) {
		return flow.AsFailure(err)
	}
	var rest []string // other errors; every branch reports that it was cancelled
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != flow.ErrCancelled.Error() {
			rest = append(rest, line)
		}
	}
	return &flow.Failure{Code: cancelledCode, Detail: strings.Join(rest, "; ")}
}

// internalFailure returns a failure of code internal.
func internalFailure(format string, args ...any) *flow.Failure {
	return flow.AsFailure(fmt.Errorf(format, args...))
}

// fromFailure returns the error that flow code gets for a failure, the same the first time and when replayed.
func fromFailure(f *flow.Failure) error {
	switch {
	case f.Code != cancelledCode:
		copied := *f // flow code may modify it
		return &copied
	case f.Detail == "":
		return flow.ErrCancelled
	}
	return fmt.Errorf("%w: %s", flow.ErrCancelled, f.Detail)
}
