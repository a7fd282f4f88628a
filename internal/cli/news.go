package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/taskdir"
)

// How long the end of a command may wait for those who hear news, before it is left to a later one.
const (
	newsPatience   = 5 * time.Second
	newsImpatience = time.Second // when a person wants the command to end
)

// newsroom tells what becomes of a project's tasks to those that the settings name. Commands that have no news don't pay.
type newsroom struct {
	a    *console
	p    *project
	once sync.Once
	n    *notify.Teller
}

func (r *newsroom) teller() *notify.Teller {
	r.once.Do(func() {
		c := r.settings()
		r.n = &notify.Teller{Root: r.p.Root, Env: r.a.commandEnv(), Redact: proc.NewRedactor(r.a.secrets(r.p, c)).String,
			Say: func(text string) { r.a.Say("%s", text) }, Late: true, Disk: r.a.Disk, Now: r.a.Now,
			May: r.a.trustedPrograms(r.p)}
		r.n.Configure(c.Notify)
	})
	return r.n
}

// settings are those in force. Where none are, nobody is told.
func (r *newsroom) settings() *config.Config {
	c, _ := r.p.config()
	if len(c.Notify) == 0 {
		return c
	}
	p, err := r.a.inForce(context.Background(), r.p)
	if err != nil {
		r.a.Say("nobody is told what becomes of tasks: %v", err)
		c.Notify = nil
		return c
	}
	c, _ = p.config()
	return c
}

func (r *newsroom) changed(before, after *taskdir.Task) { r.teller().Changed(before, after) }

// work has news told while a site works, that of earlier processes first.
func (r *newsroom) work(s *dispatch.Site) {
	n := r.teller()
	n.Late = false
	if say := s.Event; say != nil {
		n.Say = func(text string) { say(dispatch.Event{Level: slog.LevelWarn, Message: text}) }
	}
	s.Seen = n.Seen
	n.Poke()
}

// closeNews tells what is left. A watcher that is there does it for commands that only give an order.
func (a *console) closeNews(ctx context.Context) {
	if a.news == nil || a.news.n == nil {
		return
	}
	patience := newsPatience
	if w := pulse.Look(a.news.p.Root, a.Now()); a.news.n.Late && w.Alive && !w.Hangs {
		patience = 0
	} else if ctx.Err() != nil {
		patience = newsImpatience
	}
	a.news.n.Close(patience)
}
