package modelserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents/modelserver"
)

func start(t *testing.T, script modelserver.Script) *modelserver.Server {
	t.Helper()
	s, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// conversations have the same content in each protocol: an earlier exchange, then a prompt, one turn of the model with
// two calls, and the answers of the tools, with what the clients put in between.
var conversations = map[modelserver.Wire]string{
	modelserver.Chat: `{"model": "m", "stream": %v, "tools": [{"type": "function", "function": {"name": "bash"}}, {"type": "function", "function": {"name": "write"}}], "messages": [
		{"role": "system", "content": "You help.\nWorking directory: /repo\n"},
		{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "done"},
		{"role": "user", "content": [{"type": "text", "text": "the prompt"}]},
		{"role": "assistant", "content": null, "tool_calls": []},
		{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]}`,
	modelserver.Responses: `{"model": "m", "stream": %v, "instructions": "You help.", "tools": [{"type": "function", "name": "bash"}, {"type": "custom", "name": "write"}], "input": [
		{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
		{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>\n<cwd>/repo</cwd>"}]},
		{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "earlier"}]},
		{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
		{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "the prompt"}]},
		{"type": "reasoning", "summary": []},
		{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I begin"}]},
		{"type": "function_call", "name": "bash", "call_id": "1"}, {"type": "custom_tool_call", "name": "write", "call_id": "2"},
		{"type": "function_call_output", "call_id": "1", "output": "one"}, {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]}]}`,
	modelserver.Messages: `{"model": "m", "stream": %v, "system": [{"type": "text", "text": "You help.\n - Primary working directory: /repo\n"}], "tools": [{"name": "bash"}, {"name": "write"}], "messages": [
		{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "done"},
		{"role": "user", "content": [{"type": "text", "text": "<system-reminder>be good</system-reminder>"}, {"type": "text", "text": "the prompt"}]},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "bash", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "one"},
			{"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "two"}]},
			{"type": "text", "text": "<system-reminder>go on</system-reminder>"}]}]}`,
}

const geminiConversation = `{"systemInstruction": {"parts": [{"text": "You help."}]}, "tools": [{"functionDeclarations": [{"name": "bash"}, {"name": "write"}]}], "contents": [
		{"role": "user", "parts": [{"text": "<session_context>\n- **Workspace Directories:**\n  - /repo\n</session_context>"}, {"text": "earlier"}]},
		{"role": "model", "parts": [{"text": "done"}]},
		{"role": "user", "parts": [{"text": "the prompt"}]},
		{"role": "model", "parts": [{"functionCall": {"id": "1", "name": "bash", "args": {}}}, {"functionCall": {"id": "2", "name": "write", "args": {}}}]},
		{"role": "user", "parts": [{"functionResponse": {"id": "1", "response": {"output": "one"}}}, {"functionResponse": {"id": "2", "response": {"error": "two"}}}, {"text": "go on"}]}]}`

// asked returns path and body of a request: Gemini's path names model and stream.
func asked(wire modelserver.Wire, stream bool) (path, body string) {
	switch {
	case wire != modelserver.Gemini:
		return paths[wire], fmt.Sprintf(conversations[wire], stream)
	case stream:
		return "/v1beta/models/m:streamGenerateContent?alt=sse", geminiConversation
	}
	return "/v1beta/models/m:generateContent", geminiConversation
}

var wires = []modelserver.Wire{modelserver.Chat, modelserver.Responses, modelserver.Messages, modelserver.Gemini}

var paths = map[modelserver.Wire]string{
	modelserver.Chat: "/v1/chat/completions", modelserver.Responses: "/v1/responses", modelserver.Messages: "/v1/messages",
}

func TestRequestIsReadTheSameFromEachProtocol(t *testing.T) {
	for _, wire := range wires {
		t.Run(string(wire), func(t *testing.T) {
			s := start(t, modelserver.Play(modelserver.Turn{Text: "hi"}))
			path, body := asked(wire, true)
			if _, _, err := post(t, s.URL+path, body); err != nil {
				t.Fatal(err)
			}
			got := s.Requests()
			if len(got) != 1 {
				t.Fatalf("got %d requests, want 1", len(got))
			}
			r := got[0]
			line := fmt.Sprintf("%s %q %d %q %q %s %v", r.Model, r.Prompt, r.Turns, r.Tools, r.ToolResults, r.Dir, r.Stream)
			want := `m "the prompt" 1 ["bash" "write"] ["one" "two"] /repo true`
			if line != want {
				t.Errorf("got  %s\nwant %s", line, want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	turn := modelserver.Turn{Text: "So äh it is", Calls: []modelserver.Call{modelserver.Shell("echo 'x'"), modelserver.Write("a b.txt", "it's")},
		Usage: modelserver.Usage{Input: 7, Output: 8, Cached: 9}}
	for _, c := range []struct {
		wire   modelserver.Wire
		stream bool
		want   []string
	}{
		{modelserver.Chat, true, []string{`"name":"bash"`, `{\"command\":\"echo 'x'\"`, `\"filePath\":\"/repo/a b.txt\"`, `"finish_reason":"tool_calls"`, `"prompt_tokens":16`, "data: [DONE]"}},
		{modelserver.Chat, false, []string{`"content":"So äh it is"`, `"name":"write"`, `"cached_tokens":9`}},
		{modelserver.Responses, true, []string{"event: response.output_text.delta", `"name":"exec_command"`, `printf %s 'it'\\\\''s'`, "event: response.completed", `"input_tokens":16`}},
		{modelserver.Responses, false, []string{`"text":"So äh it is"`, `"status":"completed"`}},
		{modelserver.Messages, true, []string{"event: content_block_delta", `"name":"Bash"`, `"partial_json":"{\"content\":\"it's\"`, `"stop_reason":"tool_use"`, `"cache_read_input_tokens":9`, "event: message_stop"}},
		{modelserver.Messages, false, []string{`"file_path":"/repo/a b.txt"`, `"input_tokens":7`}},
		{modelserver.Gemini, true, []string{`"name":"run_shell_command"`, `"command":"echo 'x'"`, `"file_path":"/repo/a b.txt"`, `"finishReason":"STOP"`, `"promptTokenCount":16`, `"candidatesTokenCount":8`}},
		{modelserver.Gemini, false, []string{`"text":"So äh it is"`, `"name":"write_file"`, `"cachedContentTokenCount":9`}},
	} {
		t.Run(fmt.Sprintf("%s/%v", c.wire, c.stream), func(t *testing.T) {
			s := start(t, modelserver.Play(modelserver.Turn{}, turn))
			path, body := asked(c.wire, c.stream)
			_, got, err := post(t, s.URL+path, body)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("answer has no %s:\n%s", w, got)
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for wire, word := range map[modelserver.Wire]string{modelserver.Chat: "rate_limit_exceeded", modelserver.Responses: "rate_limit_exceeded", modelserver.Messages: "rate_limit_error"} {
		s := start(t, modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 429, Message: "slow down", RetryAfter: 90 * time.Second}}))
		res, body, err := post(t, s.URL+paths[wire], fmt.Sprintf(conversations[wire], true))
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "90" || !strings.Contains(body, word) || !strings.Contains(body, "slow down") {
			t.Errorf("%s: got %s, Retry-After %q, %s", wire, res.Status, res.Header.Get("Retry-After"), body)
		}
	}
}

func TestCutAndGarbage(t *testing.T) {
	for wire, path := range paths {
		for _, stream := range []bool{true, false} {
			s := start(t, modelserver.Play(modelserver.Turn{Text: "half", Cut: true}))
			if _, body, err := post(t, s.URL+path, fmt.Sprintf(conversations[wire], stream)); err == nil {
				t.Errorf("%s, stream %v: a cut answer came whole: %s", wire, stream, body)
			}
			s = start(t, modelserver.Play(modelserver.Turn{Garbage: true}))
			_, body, err := post(t, s.URL+path, fmt.Sprintf(conversations[wire], stream))
			if err != nil || json.Valid([]byte(body)) {
				t.Errorf("%s, stream %v: got %q, %v, want garbage", wire, stream, body, err)
			}
		}
	}
}

func TestHangEndsWithClientOrServer(t *testing.T) {
	s := start(t, modelserver.Play(modelserver.Turn{Text: "half of it", Hang: true}))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+paths[modelserver.Messages], strings.NewReader(fmt.Sprintf(conversations[modelserver.Messages], true)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, first); err != nil || !bytes.Equal(first, []byte("event:")) {
		t.Fatalf("got %q, %v, want the beginning of an answer", first, err)
	}
	cancel()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("a cancelled request ended well")
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := post(t, s.URL+paths[modelserver.Chat], fmt.Sprintf(conversations[modelserver.Chat], false))
		done <- err
	}()
	for len(s.Requests()) < 2 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if err := <-done; err == nil {
		t.Error("a hanging request ended well")
	}
}

func TestServerAnswersSideRequestsItself(t *testing.T) {
	s := start(t, func(r modelserver.Request) modelserver.Turn {
		t.Errorf("script was asked: %+v", r)
		return modelserver.Turn{}
	})
	title := `{"model": "m", "messages": [{"role": "system", "content": "You are a title generator."}, {"role": "user", "content": "x"}]}`
	handedIn := `{"model": "m", "tools": [{"name": "StructuredOutput"}], "messages": [{"role": "user", "content": "x"},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "StructuredOutput", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]}]}`
	for path, body := range map[string]string{"/v1/chat/completions": title, "/v1/messages": handedIn, "/v1/messages/count_tokens": "{}"} {
		if res, got, err := post(t, s.URL+path, body); err != nil || res.StatusCode != 200 {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"/", "/v1/models", "/v1/nonsense"} {
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := map[bool]int{true: 404, false: 200}[path == "/v1/nonsense"]; res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, res.StatusCode, want)
		}
	}
	if got := s.Strange(); len(got) != 1 || got[0] != "GET /v1/nonsense" {
		t.Errorf("got strange requests %q", got)
	}
}

func TestStructuredAnswerIsHandedInByTool(t *testing.T) {
	s := start(t, modelserver.Play(modelserver.Turn{Text: `{"ok": true}`}))
	_, got, err := post(t, s.URL+"/v1/messages", `{"model": "m", "tools": [{"name": "StructuredOutput"}], "messages": [{"role": "user", "content": "x"}]}`)
	if err != nil || !strings.Contains(got, `"name":"StructuredOutput"`) || !strings.Contains(got, `"input":{"ok":true}`) {
		t.Errorf("got %s, %v", got, err)
	}
}
