package agentcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	resumeNotice = "You were interrupted while you worked on this. Continue where you stopped; what you already did is still there.\n\n"
	// The steps are inserted here: programs write their sessions a little later than they act, and steps that a kill removed from
	// the session would otherwise be repeated.
	lastStepsNotice = "You may not remember all of it. The record of your work ends with these steps:\n\n%s\n" +
		"Look whether a step had its effect before you do it again.\n\n"
	maxLastSteps = 12
	maxTail      = 256 << 10 // bytes at the end of stream.jsonl in which the last steps are searched
)

// streamFile holds the output of an agent's program.
const streamFile = "stream.jsonl"

// interruptedEntry describes what an entry that was cut off left.
type interruptedEntry struct {
	dir        string // folder of the last entry in which the agent ran; "" if there is none
	mayRestart bool   // the program may not know the session, and the prompt is complete without it
	agent      string
}

// run runs the agent, unless the previous entry was cut off after the agent had given its result: then it returns that result. A
// session may have been announced before the program stored it, so if the program does not know it, run starts a new one.
func (o interruptedEntry) run(ctx context.Context, agent agents.Agent, req agents.Request, newListener func() func(agents.Event)) (*agents.Result, error) {
	if o.dir != "" {
		if res := agents.RecoverResult(o.agent, req, o.dir); res != nil {
			return res, nil
		}
	}
	res, err := agent.Run(ctx, req, newListener())
	if !o.mayRestart || ctx.Err() != nil || !noModelCall(res, err) {
		return res, err
	}
	req.Session = ""
	return agent.Run(ctx, req, newListener())
}

// lastFolder returns the folder of the last earlier entry in which the agent ran, or "".
func lastFolder(base string, attempt int) string {
	for n := attempt - 1; n > 0; n-- {
		dir := filepath.Join(base, strconv.Itoa(n))
		if _, err := os.Stat(filepath.Join(dir, streamFile)); err == nil {
			return dir
		}
	}
	return ""
}

// noModelCall reports whether a run failed before it called its model.
func noModelCall(res *agents.Result, err error) bool {
	return errors.Is(err, &flow.Failure{Code: string(trellis.AgentExit)}) && res != nil && res.Usage.Tokens() == 0 && res.ToolCalls <= 0 && res.Text == ""
}

// resumption returns the text to put in front of the prompt of a call that was cut off while the agent worked, "" for others.
func resumption(base string, attempt int, r Request, session string) string {
	steps := stepsBefore(base, attempt, r.Agent)
	switch {
	case len(steps) > 0:
		return resumeNotice + fmt.Sprintf(lastStepsNotice, strings.Join(steps, ""))
	case session != "":
		return resumeNotice
	}
	return ""
}

// stepsBefore returns the last tool calls of earlier entries, each as a line of a list.
func stepsBefore(base string, attempt int, agent string) (steps []string) {
	for n := 1; n < attempt; n++ {
		decode := agents.Decoder(agent)
		for line := range bytes.Lines(tail(filepath.Join(base, strconv.Itoa(n), streamFile), maxTail)) {
			for _, e := range decode(strings.TrimSuffix(string(line), "\n")) {
				if e.Kind == agents.EventTool {
					steps = append(steps, fmt.Sprintf("- %s `%s`\n", e.Tool, strings.ReplaceAll(e.Input, "`", "'")))
				}
			}
		}
	}
	return steps[max(0, len(steps)-maxLastSteps):]
}

// tail returns the end of a file, from the beginning of a line on, or nil if the file can't be read.
func tail(path string, most int64) []byte {
	f, err := durable.OpenBelow(filepath.Dir(path), filepath.Base(path), durable.AnySize)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from := max(0, size-most)
	data, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return nil
	}
	if from > 0 {
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	return data
}
