package tui

import (
	"reflect"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// hurried is how soon a change is on the screen.
	hurried = 4 * time.Millisecond
	// calm is how often the screen is looked at when nothing changes.
	calm = time.Second
	// lull is for how long nothing has changed before the screen is calm.
	lull = 200 * time.Millisecond
)

// pace is how often a program looks whether its screen has changed. A program has one pace for all its life, so many times
// a second also while nothing happens; this one looks at once after a change, and next to never without.
type pace struct {
	ticker *time.Ticker
	rest   *time.Timer

	mu    sync.Mutex
	until time.Time // it is looked at often
}

// paceOf is that of a program that has begun. Its ticker is not meant for others; where it is not found, nil: the program
// keeps its own pace.
func paceOf(program *tea.Program) *pace {
	field := reflect.ValueOf(program).Elem().FieldByName("ticker")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*time.Ticker]() || field.IsNil() {
		return nil
	}
	p := &pace{ticker: (*time.Ticker)(field.UnsafePointer())}
	p.rest = time.AfterFunc(lull, p.calm)
	return p
}

// hurry has the screen drawn soon.
func (p *pace) hurry() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(lull)
	p.ticker.Reset(hurried)
	p.rest.Reset(lull)
}

// calm has it looked at seldom, if nothing has changed for a while.
func (p *pace) calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.until); left > 0 {
		p.rest.Reset(left)
		return
	}
	p.ticker.Reset(calm)
}
