package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// files checks whether locks hold on the file system of the tasks.
func (d *diagnosis) files(p *app.Project) {
	kind, err := d.console.FileSystem(p.Root)
	switch {
	case err != nil:
		d.add(stateWarning, "file system", err.Error(), "")
	case kind != "":
		d.add(stateError, "file system", kind+": locks don't hold between the machines that share it", command.SharedHint)
	default:
		d.add(stateOK, "file system", "local", "")
	}
	d.verdict("locks", "file locking works", d.probeLock(p))
	if err := runner.CheckTemp(); err != nil {
		d.verdict("temporary", "", err)
	}
}

// probeLock takes a lock twice, and returns an error unless the second attempt fails.
func (d *diagnosis) probeLock(p *app.Project) (err error) {
	if _, err := os.Stat(filepath.Join(p.Root, ".trellis")); err != nil {
		return nil // reported with the project
	}
	runtime, err := p.RuntimeDir()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(runtime, "probe-")
	if err != nil {
		return fmt.Errorf("trying locks: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "lock")
	first, err := durable.TryLock(path, durable.Holder{PID: os.Getpid(), Since: d.console.Now()})
	if err != nil {
		return fmt.Errorf("trying locks: %w", err)
	}
	second, err := durable.TryLock(path, durable.Holder{PID: os.Getpid(), Since: d.console.Now()})
	switch {
	case err == nil:
		err = errors.Join(errors.New("a lock was given twice"), second.Unlock())
	case errors.Is(err, durable.ErrHeld):
		err = nil
	default:
		err = fmt.Errorf("trying locks: %w", err)
	}
	return errors.Join(err, first.Unlock())
}

// processTracking reports how the processes that a call leaves are found: by its control group, if one works here, or by their marks.
func (d *diagnosis) processTracking(ctx context.Context) {
	_, err := proc.CgroupFolder()
	if err == nil {
		said := proc.NewCapped(4 << 10)
		_, err = proc.Run(ctx, proc.Command{Argv: []string{"cat", "/proc/self/cgroup"}, Env: d.console.Env, Stdout: said, Marker: "doctor", Wall: 10 * time.Second})
		if err == nil && !strings.Contains(said.String(), "/trellis-") {
			err = errors.New("the system starts no program in one")
		}
	}
	if err == nil {
		d.add(stateOK, "processes", "each call has a control group, which ends as a whole", "")
		return
	}
	d.add(stateOK, "processes", "what a call leaves is found by its marks, and as an orphan; no control groups (docs/reference/agents.md): "+err.Error(), "")
}

func (d *diagnosis) system(ctx context.Context, p *app.Project) {
	if runtime.GOOS == "darwin" {
		d.add(stateWarning, "system", "macOS ends no agents by itself when trellis is killed: the next start does", "")
		return
	}
	d.processTracking(ctx)
	entries, _ := os.ReadDir(p.Store.Tasks()) // no entries if the folder can't be read
	for _, limit := range []struct {
		name string
		want int
	}{{"max_user_watches", 1024 + 2*len(entries)}, {"max_user_instances", 32}} {
		data, err := os.ReadFile("/proc/sys/fs/inotify/" + limit.name)
		have, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || convErr != nil {
			d.add(stateWarning, "inotify", "its limits can't be read; a watcher looks every 30 seconds instead", "")
			return
		}
		if have < limit.want {
			d.add(stateWarning, "inotify", fmt.Sprintf("%s is %d; a watcher may have to look every 30 seconds instead", limit.name, have),
				fmt.Sprintf("sudo sysctl fs.inotify.%s=%d", limit.name, 4*limit.want))
			return
		}
	}
	d.add(stateOK, "inotify", "enough watches", "")
}
