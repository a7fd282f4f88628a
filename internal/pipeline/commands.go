package pipeline

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// commands runs the project's own commands in their sandbox.
type commands struct {
	environ []string
	box     *sandbox.Box
	marker  string
	task    *taskDir
}

// run runs one of the project's own commands in dir, in the sandbox of its kind, and keeps its output.
func (cs *commands) run(ctx context.Context, c flow.Call, kind, name, dir, line string, limit time.Duration) (CommandResult, error) {
	return cs.runIn(ctx, c, sandbox.Need{Kind: kind, Dir: dir, Edit: true}, name, line, limit)
}

// runIn is run with all that the sandbox needs to know.
func (cs *commands) runIn(ctx context.Context, c flow.Call, need sandbox.Need, name, line string, limit time.Duration) (CommandResult, error) {
	folder, err := cs.task.folder(c)
	if err != nil {
		return CommandResult{}, err
	}
	cell, err := cs.box.Enter(ctx, need)
	if err != nil {
		return CommandResult{}, err
	}
	out := proc.NewCapped(maxOutput)
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Launcher: cell.Launcher, Files: cell.Files, Dir: need.Dir, Env: append(cs.box.Environment(cs.environ), cell.Env...), Stdout: out, Stderr: out, Marker: cs.marker, Wall: limit})
	refused, unfit := cell.Leave()
	if err == nil && res.Code != 0 {
		err = unfit
	}
	if err != nil {
		return CommandResult{}, err
	}
	text := cs.task.redact(out.String())
	if why := cell.Explain(res.Code, []byte(text)); why != "" {
		text = strings.TrimRight(text, "\n") + "\ntrellis: " + why + "\n"
	}
	for _, host := range refused {
		text = strings.TrimRight(text, "\n") + "\ntrellis: it asked for " + host + "\n"
	}
	file := name + ".log"
	if err := cs.task.disk.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		return CommandResult{}, err
	}
	ref, err := cs.task.outputRef(filepath.Join(folder, file), text)
	return CommandResult{Command: line, Code: res.Code, Seconds: res.Seconds, Tail: tail(text, tailBytes), Output: ref, Sandbox: cell.Name, Isolated: new(cell.Offline != ""), Offline: cell.Explain(res.Code, []byte(text)) != ""}, err
}

// tailBytes is how much of a command's output is recorded in the journal, in bytes.
const tailBytes = 300

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 10 << 20
