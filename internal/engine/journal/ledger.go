package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ledger is the state that the records of a run add up to. The same code builds it from a file and from records as they are
// appended.
type ledger struct {
	spec      *record
	calls     []*call // in the order in which they first started
	byID      map[string]*call
	signals   []*signal
	byMessage map[string]bool
	cancelled bool
	end       *record
}

// call is one activity or wait.
type call struct {
	id, scope, name string // id is scope + name + # + number
	index           int    // in ledger.calls
	tries           int
	in              json.RawMessage
	started         time.Time
	done            *record
	takenSignal     *signal // the signal that an Await took

	// Used by the engine only.
	monotonicStart time.Time // when the call started, or Open found it started; by the monotonic clock
	entered        bool      // started during this Execute
	asked          bool      // asked for by the flow code during this Execute
}

func (c *call) String() string {
	if c == nil {
		return "nothing more"
	}
	return c.id
}

type signal struct {
	*record
	taken bool
}

func newLedger() *ledger {
	return &ledger{byID: map[string]*call{}, byMessage: map[string]bool{}}
}

// add applies the next record. It returns an error for a record that no engine would have written.
func (l *ledger) add(r *record) error {
	switch {
	case (l.spec == nil) != (r.Kind == kindRun):
		return fmt.Errorf("%s can't be record %d", r.Kind, r.N)
	case l.end != nil:
		return errors.New("something after the end")
	}
	switch r.Kind {
	case kindRun:
		return l.addRun(r)
	case kindStart:
		return l.addStart(r)
	case kindDone:
		return l.addDone(r)
	case kindSignal:
		return l.addSignal(r)
	case kindCancel:
		return l.addCancel()
	case kindEnd:
		l.end = r
	default:
		return fmt.Errorf("unknown kind %q; written by a newer trellis?", r.Kind)
	}
	return nil
}

func (l *ledger) addRun(r *record) error {
	if r.Version != version {
		return fmt.Errorf("it has format %d, this trellis knows %d", r.Version, version)
	}
	l.spec = r
	return nil
}

func (l *ledger) addStart(r *record) error {
	c := l.byID[r.ID]
	switch {
	case c == nil:
		scope, err := scopeOf(r.ID, r.Name)
		if err != nil {
			return err
		}
		c = &call{id: r.ID, scope: scope, name: r.Name, index: len(l.calls), in: r.In, started: r.At, monotonicStart: time.Now()}
		l.calls, l.byID[r.ID] = append(l.calls, c), c
	case c.done != nil:
		return fmt.Errorf("%s starts after it was done", r.ID)
	}
	c.tries++
	if r.Try != c.tries {
		return fmt.Errorf("start %d of %s says it is start %d", c.tries, r.ID, r.Try)
	}
	return nil
}

// scopeOf returns the part of id before name#number: "" or a path that ends in a slash.
func scopeOf(id, name string) (string, error) {
	at := strings.LastIndexByte(id, '#')
	if at < 0 || name == "" || !strings.HasSuffix(id[:at], name) {
		return "", fmt.Errorf("%q is not an id of %q", id, name)
	}
	if n, err := strconv.Atoi(id[at+1:]); err != nil || n < 1 {
		return "", fmt.Errorf("%q has no number", id)
	}
	scope := id[:at-len(name)]
	if scope != "" && !strings.HasSuffix(scope, "/") {
		return "", fmt.Errorf("%q is not an id of %q", id, name)
	}
	return scope, nil
}

func (l *ledger) addDone(r *record) error {
	c := l.byID[r.ID]
	if c == nil || c.done != nil {
		return fmt.Errorf("%s is done, but was not under way", r.ID)
	}
	if r.Signal != 0 {
		s := l.signal(r.Signal)
		if s == nil || s.taken || c.name != awaitPrefix+s.Name {
			return fmt.Errorf("%s took signal %d, which is not there for it", r.ID, r.Signal)
		}
		s.taken, c.takenSignal = true, s
	}
	c.done = r
	return nil
}

// signal returns the signal in record n, or nil.
func (l *ledger) signal(n int) *signal {
	i, found := slices.BinarySearchFunc(l.signals, n, func(s *signal, n int) int { return s.N - n })
	if !found {
		return nil
	}
	return l.signals[i]
}

func (l *ledger) addCancel() error {
	if l.cancelled {
		return errors.New("called off twice")
	}
	l.cancelled = true
	return nil
}

func (l *ledger) addSignal(r *record) error {
	if l.byMessage[r.ID] {
		return fmt.Errorf("message %q came twice", r.ID)
	}
	l.byMessage[r.ID] = true
	l.signals = append(l.signals, &signal{record: r})
	return nil
}

// result returns to the flow the outcome of a call that is done.
func (c *call) result(out any) error {
	if c.done.Fail != nil {
		return fromFailure(c.done.Fail)
	}
	data := c.done.Out
	if c.takenSignal != nil {
		data = c.takenSignal.In
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return internalFailure("decoding the result of %s: %v", c.id, err)
	}
	return nil
}
