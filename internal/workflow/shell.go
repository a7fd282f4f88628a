package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// grace is how long a command that is told to end may take for it.
const grace = 5 * time.Second

const (
	maxOutput = 10 << 20 // bytes that are kept of each stream
	maxItems  = 4000     // of a loop
	maxItem   = 8 << 10  // bytes of one item
	tailBytes = 2 << 10  // bytes of a command's output in the record
)

// shell runs a command of a step.
func (a *Effects) shell(ctx context.Context, c flow.Call, in shellIn) (CommandResult, error) {
	ran, out, err := a.run(ctx, c, in)
	if err != nil || ran.Code != 0 || in.Output == "" {
		return ran, err
	}
	if a.redact(out.String()) != out.String() { // masked it would be other data, and unmasked it could be committed
		return ran, flow.Fail(string(trellis.StepFailed), "its output holds the value of a secret variable, and is not written to %s", in.Output)
	}
	if err := durable.WriteBelow(a.workDir(in.Dir), in.Output, []byte(out.String()), 0o644); err != nil {
		return ran, flow.Fail(string(trellis.StepFailed), "its output can't be kept: writing %s: %v", in.Output, err)
	}
	return ran, nil
}

// items returns the lines that a loop's command prints.
func (a *Effects) items(ctx context.Context, c flow.Call, in shellIn) (out itemsResult, err error) {
	ran, stdout, err := a.run(ctx, c, in)
	out.Ran = ran
	if err != nil || ran.Code != 0 {
		return out, err
	}
	size := 0
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimRight(line, "\r\n")
		if a.redact(line) != line { // it would be in the record, or be another item
			return out, flow.Fail(string(trellis.StepFailed), "an item of its loop holds the value of a secret variable")
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if size += len(line); len(line) > maxItem || len(out.Items) == maxItems || size > 32<<10 {
			return out, flow.Fail(string(trellis.StepFailed), "its loop has too much to go through: at most %d items of %d bytes, 32 KiB together", maxItems, maxItem)
		}
		out.Items = append(out.Items, line)
	}
	return out, nil
}

// run runs a command and keeps its output, stdout and stderr separately and with secrets masked. It returns stdout unmasked.
func (a *Effects) run(ctx context.Context, c flow.Call, in shellIn) (ran CommandResult, stdout *proc.Capped, err error) {
	_, s, err := a.step(in.Bundle, in.Place)
	if err != nil {
		return ran, nil, err
	}
	line := map[string]string{"command": s.Command, "verify": s.Verify}[in.Field]
	if in.Field == "for_each" {
		line = s.ForEach.Command
	}
	line = plan.Fill(line, in.Values)
	folder := filepath.Join(a.RunDir, agentcall.Folder(c))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return ran, nil, fmt.Errorf("keeping the output of %s: %w", in.Path, err)
	}
	out, errs, both := proc.NewCapped(maxOutput), proc.NewCapped(maxOutput), proc.NewCapped(2*tailBytes)
	shown := &streamMerger{tail: both, tell: func(stream, text string) { a.Send(Event{Type: StepOutput, Step: in.Path, Stream: stream, Text: text}) }, redact: a.redact}
	cell, err := a.Box.Enter(ctx, sandbox.Need{Kind: sandbox.Steps, Dir: a.workDir(in.Dir), Edit: true})
	if err != nil {
		return ran, nil, err
	}
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Launcher: cell.Launcher, Dir: a.workDir(in.Dir), Env: slices.Concat(a.Box.Environment(a.Env), in.environ()),
		Stdout: shown.newStream("stdout", out), Stderr: shown.newStream("stderr", errs), Marker: a.Marker, Wall: in.Timeout, Grace: grace})
	shown.flush()
	if why := cell.Explain(res.Code, []byte(both.String())); why != "" {
		fmt.Fprintf(errs, "\ntrellis: %s\n", why)
		fmt.Fprintf(both, "\ntrellis: %s\n", why)
	}
	if errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL) { // it is too long, or has a byte that no argument can have
		return ran, nil, flow.Fail(string(trellis.StepFailed), "its command can't be run: %v", err)
	}
	if err != nil {
		return ran, nil, err
	}
	ran = CommandResult{Command: text.Cut(a.redact(line), 4<<10), Code: res.Code, Signal: res.Signal, TimedOut: res.TimedOut, Seconds: res.Seconds, Sandbox: cell.Name, Tail: text.Tail(a.redact(both.String()), tailBytes)}
	if ran.Stdout, err = a.keep(folder, "stdout", a.redact(out.String())); err != nil {
		return ran, nil, err
	}
	ran.Stderr, err = a.keep(folder, "stderr", a.redact(errs.String()))
	return ran, out, err
}

// environ returns the loop variables for the environment of a script.
func (in shellIn) environ() (env []string) {
	for _, name := range in.Loops {
		if v := in.Values[name]; !strings.ContainsRune(v, 0) {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// keep writes a file of the run. If a power cut loses it, the command is run again.
func (a *Effects) keep(folder, name, text string) (agentcall.Ref, error) {
	ref := agentcall.Ref{SHA256: agentcall.SHA256Hex([]byte(text)), Bytes: len(text)}
	rel, err := filepath.Rel(a.RunDir, filepath.Join(folder, name))
	if err != nil {
		return ref, err
	}
	ref.Path = filepath.ToSlash(rel)
	if err := a.Disk.Step("note", filepath.Join(folder, name)); err != nil {
		return ref, err
	}
	if err := durable.WriteOwn(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		return ref, fmt.Errorf("keeping the output of a step: %w", err)
	}
	return ref, nil
}
