package agentstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// judging returns a request without tools.
func judging(t *testing.T) agents.Request {
	t.Helper()
	return agents.Request{Role: trellis.Judge, Prompt: "judge it", System: "Be brief.", Dir: t.TempDir(), Permission: trellis.PermitNone, RunDir: t.TempDir(),
		Limits: agents.Limits{Wall: agentstest.Hang}}
}

// raw starts a server with this handler, and returns its address.
func raw(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func failure(t *testing.T, err error) *flow.Failure {
	t.Helper()
	var f *flow.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a failure", err)
	}
	return f
}

func TestAPIRefusals(t *testing.T) {
	for _, tt := range []struct {
		status  int
		body    string
		want    trellis.Code
		retried bool
		says    string
	}{
		{400, `{"error":{"message":"temperature is wrong"}}`, trellis.AgentExit, false, "temperature is wrong"},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 1 + 2 > 2"}}`, trellis.ContextOverflow, false, "exceed context limit"},
		{400, `{"error":{"code":"context_length_exceeded","message":"too much"}}`, trellis.ContextOverflow, false, "too much"},
		{402, `{"error":{"message":"no credits","code":402}}`, trellis.QuotaExhausted, false, "no credits"},
		{403, `{"error":"forbidden"}`, trellis.AgentAuth, false, "forbidden"},
		{404, `{"error":{"message":"model mock-1 not found"}}`, trellis.AgentExit, false, "model mock-1 not found"},
		{408, ``, trellis.AgentExit, true, "408"},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, trellis.QuotaExhausted, false, "credit balance"},
		{429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, trellis.QuotaExhausted, false, "current quota"},
		{413, ``, trellis.ContextOverflow, false, "413"},
		{429, `{"object":"error","message":"slow down"}`, trellis.RateLimited, false, "slow down"},
		{500, `<html>oops ` + agentstest.Secret + `</html>`, trellis.ProviderDown, false, "oops ***"},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, trellis.ProviderDown, false, "Overloaded"},
		{307, ``, trellis.AgentExit, false, "http://elsewhere.example/"},
	} {
		for api := range wires {
			var asked int
			url := raw(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Location", "http://elsewhere.example/")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body) //nolint:errcheck
			})
			r := judging(t)
			_, err := direct(t, api, url).Run(t.Context(), r, nil)
			f := failure(t, err)
			if f.Code != string(tt.want) || f.Retryable != tt.retried || !strings.Contains(f.Detail, tt.says) || asked != 1 {
				t.Errorf("%s %d: got %+v after %d requests, want %s with %q", api, tt.status, f, asked, tt.want, tt.says)
			}
			if log := get(t, r.RunDir, "stderr.log"); !strings.Contains(log, fmt.Sprint(tt.status)) || strings.Contains(log, agentstest.Secret) {
				t.Errorf("%s %d: got stderr.log %q", api, tt.status, log)
			}
		}
	}
}

func TestAPILimitsSayWhen(t *testing.T) {
	soon := time.Now().Add(10 * time.Minute)
	for _, header := range []map[string]string{
		{"Retry-After": "600"},
		{"Retry-After": "599.5"},
		{"Retry-After": soon.UTC().Format(http.TimeFormat)},
		{"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": soon.Format(time.RFC3339), "anthropic-ratelimit-requests-remaining": "7", "anthropic-ratelimit-requests-reset": soon.Add(time.Hour).Format(time.RFC3339)},
		{"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": fmt.Sprint(soon.Unix())},
		{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "10m0s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"},
		{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(soon.UnixMilli())},
	} {
		url := raw(t, func(w http.ResponseWriter, r *http.Request) {
			for name, value := range header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(429)
		})
		_, err := direct(t, agents.OpenAI, url).Run(t.Context(), judging(t), nil)
		if at := failure(t, err).ResumeAt; at.Before(soon.Add(-time.Minute)) || time.Until(at) > 11*time.Minute {
			t.Errorf("%v: got resume in %s, want in ten minutes", header, time.Until(at))
		}
	}
	for _, header := range []string{"", "soon", "-1", "NaN"} {
		url := raw(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
		})
		_, err := direct(t, agents.OpenAI, url).Run(t.Context(), judging(t), nil)
		if at := failure(t, err).ResumeAt; at.Before(soon.Add(-6*time.Minute)) || time.Until(at) > 6*time.Minute {
			t.Errorf("%q: got resume in %s, want in some minutes", header, time.Until(at))
		}
	}
}

func TestAPIConnectionFails(t *testing.T) {
	gone := raw(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for api := range wires {
		cut := serve(t, modelserver.Play(modelserver.Turn{Text: "half of it", Cut: true}))
		for name, url := range map[string]string{"nobody there": "http://127.0.0.1:1", "no answer": gone, "cut": cut.URL} {
			_, err := direct(t, api, url).Run(t.Context(), judging(t), nil)
			if f := failure(t, err); f.Code != string(trellis.ProviderDown) {
				t.Errorf("%s, %s: got %+v, want %s", api, name, f, trellis.ProviderDown)
			}
		}
	}
}

func TestAPIIsCancelled(t *testing.T) {
	for api := range wires {
		came, left := make(chan bool), make(chan bool)
		url := raw(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // else the end of the client is not seen
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush() //nolint:errcheck
			came <- true
			<-r.Context().Done()
			left <- true
		})
		enough := errors.New("that is enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-came
			cancel(enough)
		}()
		a := direct(t, api, url)
		if res, err := a.Run(ctx, judging(t), nil); !errors.Is(err, enough) || res == nil {
			t.Errorf("%s: got %+v, %v, want the cause of the cancellation", api, res, err)
		}
		<-left
		if _, err := a.Run(ctx, judging(t), nil); !errors.Is(err, enough) {
			t.Errorf("%s: a run that is cancelled before it begins: got %v", api, err)
		}
	}
}

func TestAPIEndsThatAreNone(t *testing.T) {
	said := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range events {
				fmt.Fprintf(w, "%s\n\n", e)
			}
		}
	}
	for name, tt := range map[string]struct {
		api    string
		answer http.HandlerFunc
		want   trellis.Code
		says   string
	}{
		"refusal": {agents.Anthropic, said("event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"not that"}},"usage":{"output_tokens":3}}`), trellis.AgentProtocol, "not that"},
		"window":  {agents.Anthropic, said("event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":3}}`), trellis.ContextOverflow, ""},
		"overloaded on the way": {agents.Anthropic, said("event: message_start\ndata: "+`{"type":"message_start","message":{"usage":{"input_tokens":3}}}`,
			"event: error\ndata: "+`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), trellis.ProviderDown, "Overloaded"},
		"overloaded in other words": {agents.Anthropic, said("event: error\ndata: overloaded, come back"), trellis.AgentExit, "overloaded, come back"},
		"too long on the way":       {agents.OpenAI, said(`data: {"error":{"code":"context_length_exceeded","message":"too much"}}`), trellis.ContextOverflow, "too much"},
		"no money on the way":       {agents.OpenAI, said(`data: {"error":{"code":"insufficient_quota","message":"pay"}}`), trellis.QuotaExhausted, "pay"},
		"limit on the way":          {agents.Anthropic, said("event: error\ndata: " + `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), trellis.RateLimited, "slow down"},
		"no events":                 {agents.OpenAI, said(`{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`), trellis.AgentExit, "Unexpected endpoint"},
		"a page":                    {agents.Anthropic, said(`<html>sign in</html>`), trellis.AgentExit, "sign in"},
		"broken":                    {agents.Anthropic, said("event: message_start\ndata: {7"), trellis.AgentProtocol, ""},
		"nothing":                   {agents.Anthropic, said(), trellis.AgentProtocol, ""},
		"declined":                  {agents.OpenAI, said(`data: {"choices":[{"delta":{"refusal":"not "}}]}`, `data: {"choices":[{"delta":{"refusal":"that"},"finish_reason":"stop"}]}`, "data: [DONE]"), trellis.AgentProtocol, "not that"},
		"filtered":                  {agents.OpenAI, said(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"content_filter"}]}`, "data: [DONE]"), trellis.AgentProtocol, "content_filter"},
		"error":                     {agents.OpenAI, said(`data: {"choices":[{"delta":{"content":"x"}}]}`, `data: {"error":{"message":"provider went away","code":502}}`), trellis.AgentExit, "provider went away"},
		"broken chat":               {agents.OpenAI, said(`data: {7`), trellis.AgentProtocol, ""},
		"no end":                    {agents.OpenAI, said(`data: {"choices":[{"delta":{"content":"x"}}]}`), trellis.AgentProtocol, "breaks off"},
	} {
		res, err := direct(t, tt.api, raw(t, tt.answer)).Run(t.Context(), judging(t), nil)
		if f := failure(t, err); f.Code != string(tt.want) || !strings.Contains(f.Detail, tt.says) {
			t.Errorf("%s: got %+v, %v, want %s with %q", name, res, err, tt.want, tt.says)
		}
	}
	for api := range wires {
		server := serve(t, modelserver.Play(modelserver.Turn{Text: `{"half": `, Length: true}))
		res, err := direct(t, api, server.URL).Run(t.Context(), judging(t), nil)
		if f := failure(t, err); f.Code != string(trellis.AgentProtocol) || res.Text != `{"half": ` || res.Usage.OutputTokens == 0 {
			t.Errorf("%s, cut off: got %+v, %v", api, res, err)
		}
	}
}

// TestAPIQuirks: what servers of that protocol do beyond its specification.
func TestAPIQuirks(t *testing.T) {
	for idle := 300 * time.Millisecond; ; idle *= 4 {
		res, err := quirks(t, idle)
		if errors.Is(err, &flow.Failure{Code: string(trellis.TimeoutIdle)}) && idle < time.Minute {
			continue // on a busy machine signs of life may come late
		}
		if err != nil || res.Text != "caf\uFFFD" || res.ToolCalls != 3 || res.Usage.Tokens() != 0 {
			t.Errorf("got %+v, %v", res, err)
		}
		return
	}
}

// quirks asks such a server, which takes longer to answer than the idle limit idle.
func quirks(t *testing.T, idle time.Duration) (*agents.Result, error) {
	t.Helper()
	var requests int
	url := raw(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if requests++; requests == 1 { // all calls have the same index, and the finish reason is not that of calls
			io.WriteString(w, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_file","arguments":"{\"path\":"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"one\"}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read_file","arguments":{"path":"two"}}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"read_file","arguments":"{\"path\""}}]},"finish_reason":"stop"}]}

`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		for _, want := range []string{"1\\ttwo\\n", "1\\tone\\n", `"arguments":"{}"`, `"tool_call_id":"c"`} {
			if !strings.Contains(string(body), want) {
				t.Errorf("the model is not told %s in %s", want, body)
			}
		}
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"content\":null}}]}\n\n")
		for range 10 { // slow, with signs of life that are not events
			io.WriteString(w, ": working\n\n")
			http.NewResponseController(w).Flush() //nolint:errcheck
			time.Sleep(idle / 6)
		}
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"caf\xe9\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	r := reading(t, t.TempDir())
	r.Limits.Idle = idle
	for _, name := range []string{"one", "two"} {
		put(t, filepath.Join(r.Dir, name), name+"\n", 0o600)
	}
	return direct(t, agents.OpenAI, url).Run(t.Context(), r, nil)
}

// TestAPIOddTypes: a field of another type than specified counts as missing, unless a number can be read from it. Events that only
// keep the connection alive may have data that is not JSON.
func TestAPIOddTypes(t *testing.T) {
	for api, answer := range map[string]string{
		agents.OpenAI: `{"error":null,"id":7,"choices":[{"index":"0","delta":{"role":7,"content":"well","tool_calls":null}}],"usage":"none"}` + "\n\ndata:" +
			`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":"12","completion_tokens":3.0}}`,
		agents.Anthropic: `{"type":"content_block_start","index":"0","content_block":{"type":"text","text":"well"},"usage":[]}` + "\n\ndata:" +
			`{"type":"message_delta","error":null,"delta":{"stop_reason":"end_turn","stop_details":"none"}}`,
	} {
		url := raw(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: ping\ndata: ping\n\nevent: keep-alive\ndata: still here\n\ndata: \"waiting\n\nretry: 5\ndata: %s\n\n", answer)
		})
		res, err := direct(t, api, url).Run(t.Context(), judging(t), nil)
		if want := map[string]int64{agents.OpenAI: 15}[api]; err != nil || res.Text != "well" || res.ToolCalls != 0 || res.Usage.Tokens() != want {
			t.Errorf("%s: got %+v, %v, want %d tokens", api, res, err, want)
		}
	}
}
