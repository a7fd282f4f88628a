package tui

import (
	"reflect"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// fastInterval is how soon a change is drawn.
	fastInterval = 4 * time.Millisecond
	// slowInterval is the interval at which the screen is checked while nothing changes.
	slowInterval = time.Second
	// quietTime is how long nothing has changed before the screen is calm.
	quietTime = 200 * time.Millisecond
)

// pace is how often a program checks whether its screen has changed. The pace of bubbletea is fixed, many
// times a second even while nothing happens; this one checks soon after a change, and hardly ever otherwise.
type pace struct {
	ticker    *time.Ticker
	slowTimer *time.Timer

	mu    sync.Mutex
	until time.Time // checks are frequent until then
}

// newPace returns the pace of a program that has begun. It resets the ticker of the program, which
// is not exported; if there is none it returns nil, and the program keeps its own pace.
func newPace(program *tea.Program) *pace {
	field := reflect.ValueOf(program).Elem().FieldByName("ticker")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*time.Ticker]() || field.IsNil() {
		return nil
	}
	p := &pace{ticker: (*time.Ticker)(field.UnsafePointer())}
	p.slowTimer = time.AfterFunc(quietTime, p.calm)
	return p
}

// hurry has the screen drawn soon.
func (p *pace) hurry() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(quietTime)
	p.ticker.Reset(fastInterval)
	p.slowTimer.Reset(quietTime)
}

// calm makes checks infrequent if nothing has changed for a while.
func (p *pace) calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.until); left > 0 {
		p.slowTimer.Reset(left)
		return
	}
	p.ticker.Reset(slowInterval)
}
