package app

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/traces"
)

// How long a command may wait at its end until the remaining spans are sent.
const (
	spansTimeout          = 3 * time.Second
	spansInterruptTimeout = time.Second // when a person interrupts the command
)

// Traces sends spans of a project's runs, if the environment asks for it. The tracer is created with the first site.
type Traces struct {
	env  *Env
	once sync.Once
	t    *traces.Tracer
}

// tracer returns the tracer that sends them, nil if the environment doesn't ask for any.
func (r *Traces) tracer(redact func(string) string) *traces.Tracer {
	if r == nil { // nil for a project that was not opened as a repository, as eval's may be
		return nil
	}
	r.once.Do(func() {
		s, err := traces.FromEnvironment(r.env.Get)
		if err != nil {
			r.env.say("no spans are sent: %v", err)
		}
		if s != nil {
			r.t = traces.New(*s, version(), redact)
		}
	})
	return r.t
}

// Close sends the remaining spans.
func (r *Traces) Close(ctx context.Context) {
	if r == nil {
		return
	}
	patience := spansTimeout
	if ctx.Err() != nil {
		patience = spansInterruptTimeout
	}
	r.t.Close(patience, func(text string) { r.env.say("%s", text) })
}

// version returns the version of this program, "" if it has none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
