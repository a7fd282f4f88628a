package agents

import (
	"io"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// RecoverResult returns the result that a run of the named agent left in its RunDir dir when both the agent and the process that ran it
// were killed before the result was taken. It returns nil if the agent had not reported its work as done, and for agents whose
// output does not show that. The usage is left out.
func RecoverResult(name string, r Request, dir string) *Result {
	b, ok := builtInNamed(name)
	if !ok {
		return nil
	}
	read := b.reader(r)
	f, err := durable.OpenBelow(dir, "stream.jsonl", durable.AnySize)
	if err != nil {
		return nil
	}
	defer f.Close()
	t := &tally{watchdog: newWatchdog(Request{}, Options{}.grace(), func(error) {})}
	in := &lineWriter{redact: &proc.Redactor{}, log: io.Discard, onLine: func(line string) { read.line(line, t) }}
	_, err = f.WriteTo(in)
	t.watchdog.stop()
	if err != nil || !t.done || t.verdict(r, read.end(t, ending{}), ending{}, true) != nil {
		return nil
	}
	t.result.Usage = trellis.Usage{}
	return &t.result
}
