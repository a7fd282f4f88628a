package agents

import (
	"io"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Recall is the result that a run left in its RunDir, although nobody was there to take it: the program of that name
// had said that its work was done, when it and whoever ran it were killed. Nil when it had not, and for agents whose
// output does not tell. What the run used is left out.
func Recall(name string, r Request, dir string) *Result {
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
	in := &lines{redact: &proc.Redactor{}, log: io.Discard, take: func(line string) { read.line(line, t) }}
	_, err = f.WriteTo(in)
	t.watchdog.stop()
	if err != nil || !t.done || t.verdict(r, read.end(t, ending{}), ending{}, true) != nil {
		return nil
	}
	t.result.Usage = trellis.Usage{}
	return &t.result
}
