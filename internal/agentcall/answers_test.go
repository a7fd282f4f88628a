package agentcall_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// speaker is an agent that returns this result and nothing else.
type speaker agents.Result

func (s speaker) Run(context.Context, agents.Request, func(agents.Event)) (*agents.Result, error) {
	r := agents.Result(s)
	return &r, nil
}

// hear asks a speaker for a TaskSpec, in a new task directory, and returns the reply and the run folder.
func hear(t *testing.T, s speaker, more func(*agentcall.Caller)) (reply agentcall.Reply, run string) {
	t.Helper()
	acts := &agentcall.Caller{RunDir: filepath.Join(t.TempDir(), "run"), Agents: agentcall.Agents{
		Open:   func(string) (agents.Agent, error) { return s, nil },
		Render: func(string, map[string]string) (templates.Prompt, error) { return templates.Prompt{Text: "say"}, nil }},
		Slots: func(context.Context, flow.Call, agentcall.Request) (map[string]string, []string, error) {
			return nil, nil, nil
		}}
	if more != nil {
		more(acts)
	}
	raw, err := json.Marshal(agentcall.Request{Role: trellis.TaskSpec, Schema: "taskspec"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := acts.Activities(trellis.TaskSpec)[0].Run(context.Background(), flow.Call{Run: "x/1", ID: "taskspec#1", Attempt: 1}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return out.(agentcall.Reply), acts.RunDir
}

// However an agent wraps its answer, the answer is found, by the structured way too; a broken answer is not accepted.
func TestAnswersInEveryShape(t *testing.T) {
	const good, other = `{"user_intent": "a {b} \"}\" c"}`, `{"user_intent": "other"}`
	crlf := strings.NewReplacer("{\"", "{\r\n\"", ": ", ":\r\n").Replace(good)
	prose := strings.Repeat("I think { that } it is \"fine. ", 200_000) // an odd number of quotes, 6 MB
	for name, c := range map[string]struct {
		text   string
		answer string // the structured answer
		want   string // "": there is no answer
		why    string
	}{
		"alone":                                {text: good, want: good},
		"in a fence":                           {text: "```json\n" + good + "\n```", want: good},
		"in a fence that is never closed":      {text: "Here:\n```json\n" + good + "\n", want: good},
		"in a fence behind braces":             {text: "I looked at {a} and {\"b\": 1}.\n```\n" + good + "\n```\nDone {c}.", want: good},
		"behind a thought":                     {text: "<think>\nmaybe " + other + " or {\"user_intent\": no}\n</think>\n" + good, want: good},
		"byte order mark, CRLF":                {text: "\ufeff```json\r\n" + crlf + "\r\n```\r\n", want: crlf},
		"behind megabytes of prose":            {text: prose + "\n" + good, want: good},
		"before megabytes of prose":            {text: good + "\n" + prose, want: good},
		"the last of two":                      {text: other + "\n" + good, want: good},
		"the last of two that is valid":        {text: good + "\n{\"user_intent\": 7}", want: good},
		"with a wrapper":                       {text: `{"taskSpec": ` + good + `}`, want: good},
		"structured":                           {answer: good, want: good},
		"structured, beside words":             {text: "I have handed it in.", answer: good, want: good},
		"structured, beside another one":       {text: other, answer: good, want: good},
		"structured with a wrapper":            {answer: `{"spec": ` + good + `}`, want: good},
		"structured but wrong, beside a right": {text: good, answer: `{"intent": "x"}`, want: good},
		"structured but wrong":                 {answer: `{"intent": "x"}`, why: "/user_intent: is missing"},
		"null":                                 {answer: "null", why: "there is no complete JSON object"},
		"cut off":                              {text: "```json\n{\"user_intent\": \"x\", \"goals\": [\"a\"", why: "there is no complete JSON object"},
		"a comma too many":                     {text: `{"user_intent": "x",}`, why: "there is no complete JSON object"},
		"single quotes":                        {text: `{'user_intent': 'x'}`, why: "there is no complete JSON object"},
		"a list":                               {text: `["user_intent"]`, why: "there is no complete JSON object"},
		"a refusal":                            {text: "I can't help with that.", why: "there is no complete JSON object"},
		"nothing":                              {why: "there is no complete JSON object"},
		"two wrappers":                         {text: `{"a": {"b": ` + good + `}}`, why: "/user_intent: is missing"},
		"too large":                            {text: `{"user_intent": "` + strings.Repeat("<", 9000) + `"}`, why: "/: takes 54018 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := speaker{Text: c.text}
			if c.answer != "" {
				s.Answer = json.RawMessage(c.answer)
			}
			reply, run := hear(t, s, nil)
			if got := string(reply.Answer); got != c.want {
				t.Errorf("got %.200q, want %.200q", got, c.want)
			}
			if c.want == "" && !strings.Contains(strings.Join(reply.Problems, "\n"), c.why) || c.want != "" && reply.Problems != nil {
				t.Errorf("got problems %q, want %q", reply.Problems, c.why)
			}
			kept, err := os.ReadFile(filepath.Join(run, reply.Text.Path))
			if err != nil || string(kept) != c.text && string(kept) != c.answer {
				t.Errorf("kept is %.100q, %v", kept, err)
			}
		})
	}
}

// The mended answer is the one that is checked, kept and reported.
func TestAnswersAreMendedBeforeTheyAreChecked(t *testing.T) {
	mend := func(a *agentcall.Caller) {
		a.Mend = func(_ agentcall.Request, answer json.RawMessage) (json.RawMessage, []string) {
			if strings.Contains(string(answer), "null") {
				return json.RawMessage(`{"user_intent": "mended"}`), []string{"/goals: is null, left out"}
			}
			return answer, nil
		}
		a.Check = func(_ agentcall.Request, answer json.RawMessage) []string {
			if strings.Contains(string(answer), "mended") {
				return nil
			}
			return []string{"/user_intent: is not mended"}
		}
	}
	for text, want := range map[string]string{`{"user_intent": "x", "goals": null}`: `{"user_intent": "mended"}`, `{"spec": {"user_intent": "x", "goals": null}}`: `{"user_intent": "mended"}`, `{"user_intent": "x"}`: ""} {
		reply, _ := hear(t, speaker{Text: text}, mend)
		if string(reply.Answer) != want || (want == "") != (len(reply.Problems) == 1) || (want == "") != (len(reply.Notes) == 0) {
			t.Errorf("%s: got %s, problems %q, notes %q", text, reply.Answer, reply.Problems, reply.Notes)
		}
	}
}
