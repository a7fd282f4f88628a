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
	read := readers(name, r)
	if read == nil {
		return nil
	}
	f, err := durable.OpenBelow(dir, "stream.jsonl", durable.AnySize)
	if err != nil {
		return nil
	}
	defer f.Close()
	t := &tally{watch: newWatch(Request{}, Options{}.grace(), func(error) {})}
	in := &lines{redact: &proc.Redactor{}, log: io.Discard, take: func(line string) { read.line(line, t) }}
	_, err = f.WriteTo(in)
	t.watch.stop()
	if err != nil || !t.done || t.verdict(r, read.end(t, ending{}), ending{}, true) != nil {
		return nil
	}
	t.result.Usage = trellis.Usage{}
	return &t.result
}

// readers make sense of what a built-in program printed.
func readers(name string, r Request) reader {
	switch name {
	case Claude:
		return &claudeStream{spent: map[string]claudeSpent{}}
	case Codex:
		return newCodexStream("", Request{Schema: r.Schema})
	case OpenCode:
		return &openCodeStream{}
	}
	return nil
}
