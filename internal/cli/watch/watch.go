// Package watch is `trellis watch`: it runs tasks as they become ready, and reports on them as a log or a show.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command returns `trellis watch`.
func Command(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "watch",
		Usage: "run tasks as they become ready, until interrupted",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "exit when nothing is left to run"},
			&cli.IntFlag{Name: "parallel", Usage: "run `N` tasks at once (default: limits.parallel in config.yaml)"},
			&cli.DurationFlag{Name: "rescan", Value: 30 * time.Second, Usage: "rescan everything every `D`, whatever file events report"},
			&cli.BoolFlag{Name: "poll", Usage: "ignore file events and only rescan"},
			&cli.StringFlag{Name: "log-level", Usage: "write records of `LEVEL` (debug, info, warn, error) and above, even on a terminal"},
			&cli.BoolFlag{Name: "json", Usage: "print records to stdout as JSON, one per line"},
			&cli.BoolFlag{Name: "objectives", Usage: "also plan steps of objectives and record their tasks' results (objectives.watch in config.yaml)"},
			command.PlainFlag(),
			&cli.StringFlag{Name: "shared", Usage: "share tasks with other checkouts through the git remote `REMOTE` (shared.remote in config.yaml); none: stop sharing"},
			command.SharedFlag(),
			&cli.BoolFlag{Name: "print-unit", Usage: "print a systemd or launchd service that watches this repository, and exit"},
		},
		Description: command.Manual(`Notices new and changed task directories, runs those that are ready and resumes those that were
interrupted. A broken directory is reported once, with file, line and what to do, and does not affect others. Only
one process watches a repository. Without a terminal it writes records to stderr. Settings are reloaded when
they change and on SIGHUP; runs in progress keep theirs.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitWaiting, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted},
			"trellis watch", "trellis watch --once --parallel 4", "trellis watch --objectives", "trellis watch --print-unit"),
		Action: func(c *cli.Context) error {
			if c.Duration("rescan") < time.Second {
				return app.Usagef("--rescan must be at least 1s")
			}
			if c.IsSet("parallel") && c.Int("parallel") < 1 {
				return app.Usagef("--parallel must be at least 1")
			}
			if _, ok := logLevels[c.String("log-level")]; !ok && c.IsSet("log-level") {
				return app.Usagef("--log-level is debug, info, warn or error, not %q", c.String("log-level"))
			}
			if c.Bool("print-unit") {
				p, err := a.Open(c.Context)
				if err != nil {
					return err
				}
				return printUnit(a, c, p)
			}
			return a.Guarded(func() error { return run(a, c) })
		},
	}
}

// gcPercent is how much of the heap, in percent, may be garbage while watching: half of Go's default. A
// watcher is idle most of its life, and the garbage of one scan of all tasks stays until the next.
const gcPercent = 50

func run(a *command.Console, c *cli.Context) error {
	if a.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	p, err := openProject(a, c)
	if err != nil {
		return err
	}
	begun, err := p.InForce(c.Context)
	if err != nil {
		return err
	}
	if begun.Settings.Kept != "" {
		p.WarnOldSettings(c.Context)
	}
	files := begun.Settings.Files()
	s, err := begun.SiteWith(c.Context)
	if err != nil {
		return err
	}
	o := scheduler.WatchOptions{Once: c.Bool("once"), Parallel: c.Int("parallel"), Rescan: c.Duration("rescan"), Poll: c.Bool("poll"),
		Objectives: c.Bool("objectives"), Reload: settingsReloader(c.Context, p, files), Hangup: proc.ReloadSignals(c.Context)}
	o.Creator, _ = app.Developer(p.Root) // the name of the user is optional
	ctx, stop := context.WithCancel(c.Context)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	report, watching := newReporter(a, c, p, s), watcherNews{once: o.Once, news: p.News}
	s.Event = report.handle
	o.Begun = func() {
		watching.begin()
		report.begin(cmp.Or(o.Parallel, s.Config.Limits.Parallel))
	}
	p.News.Work(s)
	if o.Look, err = follow(ctx, begun, s, o.Once, &following); err != nil {
		report.end(nil, err)
		return err
	}
	results, err := scheduler.Watch(c.Context, s, o)
	watching.end(err)
	report.end(results, err)
	return exitError(c, p, results, err)
}

// openProject opens the project if it can be watched, and shares its tasks as --shared says.
func openProject(a *command.Console, c *cli.Context) (*app.Project, error) {
	p, err := a.Open(c.Context)
	if err != nil {
		return nil, err
	}
	if err := a.RefuseSharedDisk(c, p.Root); err != nil || !c.IsSet("shared") {
		return p, err
	}
	return p, app.SharingOf(p).ShareThrough(c.Context, c.String("shared"))
}

// reporter reports what a watcher does: as a log or as a show.
type reporter interface {
	begin(parallel int)
	handle(runner.Event)
	end(results []runner.Result, err error)
}

func newReporter(a *command.Console, c *cli.Context, p *app.Project, s *runner.Site) reporter {
	if log, ok := watchRecords(a, c, p, s); ok {
		return log
	}
	return &resultPrinter{a: a, p: p, show: a.ShowTasks(c, s, false), once: c.Bool("once"), printed: map[string]trellis.Status{}}
}

// watcherNews notifies people when a watcher stops, unless it ran with --once.
type watcherNews struct {
	once    bool
	news    *app.Notifications
	stopped func(error) // nil: the watcher did not begin
}

func (w *watcherNews) begin() {
	if !w.once {
		w.stopped = w.news.Watch()
	}
}

func (w *watcherNews) end(err error) {
	if w.stopped != nil {
		w.stopped(err)
	}
}

// follow keeps this checkout and other machines up to date with each other until ctx ends, if it shares its tasks.
// It returns the directories to inspect as others change them. With once, it pulls their state before it returns.
func follow(ctx context.Context, p *app.Project, s *runner.Site, once bool, following *sync.WaitGroup) (<-chan string, error) {
	t, err := app.SharingOf(p).Team(s)
	if errors.Is(err, app.ErrNoTeam) {
		return nil, nil
	}
	if err == nil && once {
		if _, err = t.Pull(ctx); errors.As(err, new(*app.NotUpdatedError)) { // Follow reports it, and the other tasks can run
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	changed := make(chan string)
	following.Go(func() {
		t.Sync(ctx, func(dir string) {
			select {
			case changed <- dir:
			case <-ctx.Done():
			}
		})
	})
	return changed, nil
}

// resultPrinter prints how each run ended, when it ends: its result, and what is to be done next.
type resultPrinter struct {
	a       *command.Console
	p       *app.Project
	show    *terminal.Live
	once    bool
	mu      sync.Mutex
	printed map[string]trellis.Status // the status that was printed, by directory
}

func (e *resultPrinter) begin(parallel int) {
	e.show.Say(fmt.Sprintf("watching %s, %d at once", e.p.Store.Rel(e.p.Store.Tasks()), parallel))
}

func (e *resultPrinter) handle(happened runner.Event) {
	e.show.ShowRunnerEvent(happened)
	if happened.Ended == nil {
		return
	}
	res := *happened.Ended
	lines := outcome.RunLines(e.p, res)
	if res.Failure != nil && res.Status == trellis.Failed {
		lines = append(lines, "next: "+outcome.FailureHint(filepath.Base(res.Dir), res.Failure))
	}
	if len(lines) > 0 {
		e.show.Say(strings.Join(lines, "\n"))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.printed[res.Dir] = res.Status
}

// end ends the show, and prints the results of tasks that were not printed yet.
func (e *resultPrinter) end(results []runner.Result, err error) {
	e.show.Close()
	for _, r := range results {
		if said, ok := e.printed[r.Dir]; !ok || said != r.Status || r.Interrupted {
			outcome.SayRun(e.a, e.p, r)
		}
	}
	if e.once && err == nil && len(results) == 0 {
		e.a.Say("no task is ready to run; next: trellis status")
	}
}

// watchRecords returns the log of a watcher, and whether it has one: a service has, and a call with the flags for it.
func watchRecords(a *command.Console, c *cli.Context, p *app.Project, s *runner.Site) (records, bool) {
	asked := c.Bool("json") || c.IsSet("log-level")
	if !asked && (c.Bool("once") || c.Bool("plain") || command.IsTerminal(a.Stderr)) {
		return records{}, false
	}
	w := a.Stderr
	if c.Bool("json") {
		w = a.Stdout
	}
	r := newRecords(w, c.Bool("json"), logLevels[c.String("log-level")], s.Redact) // "" is info
	r.tasks = p.Store.Tasks()
	return r, true
}

// settingsReloader returns a function that loads the settings if their files changed. If a file of the project is gone,
// as while git checks out an older commit, it returns an error: the defaults for checks and sandbox must not apply.
func settingsReloader(ctx context.Context, p *app.Project, files config.Files) func() (*runner.Site, error) {
	return func() (*runner.Site, error) {
		now, unread := p.Settings.Read()
		if len(unread) > 0 {
			return nil, &unread[0]
		}
		for _, f := range [][2]config.File{{files.Config, now.Config}, {files.Worktree, now.Worktree}} {
			if f[0].Data != nil && f[1].Data == nil {
				return nil, &trellis.Problem{File: f[0].Name, Message: "is gone", Hint: "put it back, or restart trellis watch without it"}
			}
		}
		if reflect.DeepEqual(now, files) {
			return nil, nil
		}
		cfg, problems := config.Load(now)
		if wrong := trellis.Errors(problems); len(wrong) > 0 {
			return nil, &wrong[0]
		}
		if err := p.CheckTrustedNow(ctx); err != nil {
			return nil, app.WithNextCommand(err)
		}
		if judged, _ := p.Settings.Read(); !reflect.DeepEqual(judged, now) {
			return nil, nil // they changed again meanwhile: another event follows
		}
		files = now
		p.News.Notifier().Configure(cfg.Notify)
		return p.Wire(ctx, cfg, p), nil
	}
}

// exitError returns the error for the exit code after a watcher.
func exitError(c *cli.Context, p *app.Project, results []runner.Result, err error) error {
	if c.Context.Err() != nil {
		return context.Canceled
	}
	if held, ok := errors.AsType[*durable.HeldError](err); ok && held.Path == pulse.Lock(p.Root) {
		return app.WithHints(app.AsKind(app.ErrLocked, errors.New("another watcher runs here: "+holderWords(held.Holder))), "trellis status")
	}
	if err != nil {
		return outcome.AgentError(err)
	}
	return resultsError(results)
}

// holderWords describes the process that holds a lock, as far as is known.
func holderWords(h durable.Holder) string {
	if h.PID == 0 {
		return "an unknown process"
	}
	words := fmt.Sprintf("process %d", h.PID)
	if h.Host != "" {
		words += " on " + h.Host
	}
	if !h.Since.IsZero() {
		words += ", since " + h.Since.Local().Format("2006-01-02 15:04:05")
	}
	return words
}

// resultsError returns the error for the exit code after several tasks: the first that applies of
// failed, no agent, not ready, waiting.
func resultsError(results []runner.Result) error {
	var found [4]bool
	for _, r := range results {
		switch {
		case r.Failure != nil && (r.Failure.Code == string(trellis.AgentMissing) || r.Failure.Code == string(trellis.AgentAuth)) && r.Status != trellis.Failed:
			found[1] = true
		case r.Status == trellis.Review && r.Failure != nil: // its pull request is not mended
			found[0] = true
		case r.Status == trellis.Failed, r.Status == trellis.Cancelled, r.Status == trellis.Rejected, r.Status == trellis.Planning: // the last two: steps of objectives
			found[0] = true
		case r.Status == trellis.Waiting, r.Status == trellis.Paused, r.Status == trellis.Ready && !r.Until.IsZero():
			found[3] = true
		case r.Status == trellis.Ready, r.Status == "": // "": task.json can't be read
			found[2] = true
		}
	}
	for i, kind := range []app.Kind{app.ErrFailed, app.ErrNoAgent, app.ErrUnmet, app.ErrWaiting} {
		if found[i] {
			return app.Quiet(kind)
		}
	}
	return nil
}
