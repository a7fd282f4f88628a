package app

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/traces"
)

// How long the end of a command may wait until spans are sent that are left.
const (
	spansPatience   = 3 * time.Second
	spansImpatience = time.Second // when a person wants the command to end
)

// Traces sends spans of what runs of a project did, where the environment says so. The tracer is made when the first site is.
type Traces struct {
	env  *Env
	once sync.Once
	t    *traces.Tracer
}

// tracer is what sends them, nil when nobody wants any.
func (r *Traces) tracer(redact func(string) string) *traces.Tracer {
	if r == nil { // of a project that is none of a person
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

// Close sends what is left.
func (r *Traces) Close(ctx context.Context) {
	if r == nil {
		return
	}
	patience := spansPatience
	if ctx.Err() != nil {
		patience = spansImpatience
	}
	r.t.Close(patience, func(text string) { r.env.say("%s", text) })
}

// version is that of this program, "" when it has none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
