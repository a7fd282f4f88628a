package agents_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
)

// The output of each program is decoded into the same kinds of events.
func TestDecoder(t *testing.T) {
	for _, test := range []struct{ agent, stream, want string }{
		{agents.Claude, `{"type":"system","subtype":"init","session_id":"s1"}
{"type":"assistant","session_id":"s1","message":{"id":"m1","content":[{"type":"text","text":"I look"},{"type":"tool_use","name":"Read","input":{"file_path":"main.go"}}],"usage":{"input_tokens":3,"output_tokens":1}}}`,
			"session s1, text I look, tool Read main.go"},
		{agents.Codex, `{"type":"thread.started","thread_id":"t1"}
{"type":"item.started","item":{"type":"command_execution","command":"ls"}}
{"type":"item.completed","item":{"type":"agent_message","text":"done"}}`,
			"session t1, tool shell \"ls\", text done"},
		{agents.OpenCode, `{"type":"text","sessionID":"o1","part":{"type":"text","text":"hello"}}`, "session o1, text hello"},
		{agents.Rehearsal, `{"type":"notice","text":"no model"}
{"type":"tool","tool":"write","input":"a.go"}
{"type":"text","text":"ok"}`, "notice no model, tool write a.go, text ok"},
		{"mine", `plain words
{"type":"tool","tool":"edit","input":{"path":"b.go"}}
{"my": "answer"}`, `text plain words, tool edit b.go, text {"my": "answer"}`},
	} {
		decode := agents.Decoder(test.agent)
		var got []string
		for _, line := range strings.Split(test.stream, "\n") {
			for _, e := range decode(line) {
				if e.Kind != agents.EventUsage {
					got = append(got, strings.Join(strings.Fields(string(e.Kind)+" "+e.Session+" "+e.Tool+" "+e.Input+" "+e.Text), " "))
				}
			}
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.agent, got, test.want)
		}
	}
}
