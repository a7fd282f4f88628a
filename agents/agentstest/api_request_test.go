package agentstest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestAPIRequest(t *testing.T) {
	schema := `{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"number"}},"required":["zeta","alpha"],"additionalProperties":false}`
	for api := range wires {
		server := serve(t, modelserver.Play(modelserver.Turn{Text: `{"zeta":"x","alpha":1}`}))
		r := judging(t)
		r.Schema, r.Model = json.RawMessage(schema), "other-2"
		r.Limits.Tokens = 5 // exceeded only when the answer is complete, so that the run does not fail
		res, err := direct(t, api, server.URL).Run(t.Context(), r, nil)
		if err != nil || string(res.Answer) != `{"zeta":"x","alpha":1}` || res.ToolCalls != 0 || res.Stop == "" {
			t.Errorf("%s: got %+v, %v", api, res, err)
		}
		got := server.Requests()[0]
		if strings.TrimSpace(got.System) != "Be brief." || got.Prompt != "judge it" || got.Model != "other-2" || !got.Stream || got.Tools != nil {
			t.Errorf("%s: got %+v", api, got)
		}
		if !strings.Contains(string(got.Raw), schema) {
			t.Errorf("%s: the schema, in its order, is not in %s", api, got.Raw)
		}
		if key := got.Header.Get("X-Api-Key") + got.Header.Get("Authorization"); !strings.HasSuffix(key, agentstest.Secret) {
			t.Errorf("%s: got the key %q", api, key)
		}
	}
}

// TestAPIWithoutSchemas: a server that rejects schemas is asked for text.
func TestAPIWithoutSchemas(t *testing.T) {
	for api := range wires {
		server := serve(t, func(r modelserver.Request) modelserver.Turn {
			if strings.Contains(string(r.Raw), "json_schema") {
				return modelserver.Turn{Fail: &modelserver.Fail{Status: 400, Message: "what is json_schema?"}}
			}
			return modelserver.Turn{Text: "Here: " + agentstest.JSON}
		})
		r := judging(t)
		r.Schema = json.RawMessage(agentstest.Schema)
		var events []agents.Event
		res, err := direct(t, api, server.URL).Run(t.Context(), r, func(e agents.Event) { events = append(events, e) })
		if err != nil || res.Answer != nil || res.Text != "Here: "+agentstest.JSON || len(server.Requests()) != 2 {
			t.Errorf("%s: got %+v, %v after %d requests", api, res, err, len(server.Requests()))
		}
		if events[1].Kind != agents.EventNotice || !strings.Contains(events[1].Text, "what is json_schema?") {
			t.Errorf("%s: got events %+v", api, events)
		}
	}
}

// TestAPIKeys: a key comes only from the environment, and goes only to its own server.
func TestAPIKeys(t *testing.T) {
	env := []string{"ANTHROPIC_API_KEY=one-0123456789", "OPENAI_API_KEY=two-0123456789", "MY_KEY= three-0123456789\n"}
	for api := range wires {
		for keyEnv, want := range map[string]string{"": "", "MY_KEY": "three-0123456789"} {
			server := serve(t, modelserver.Play(modelserver.Turn{Text: agentstest.Text}))
			o := agents.Options{Environ: env, APIs: map[string]agents.API{"mine": {Kind: api, Model: "m", BaseURL: server.URL + map[string]string{agents.OpenAI: "/v1"}[api], KeyEnv: keyEnv}}}
			a, err := agents.New("mine", o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Run(t.Context(), judging(t), nil); err != nil {
				t.Fatal(err)
			}
			h := server.Requests()[0].Header
			if got := h.Get("X-Api-Key") + strings.TrimPrefix(h.Get("Authorization"), "Bearer "); got != want {
				t.Errorf("%s with key_env %q: got the key %q, want %q", api, keyEnv, got, want)
			}
		}
		for _, a := range []agents.API{{Kind: api, Model: "m"}, {Kind: api, Model: "m", BaseURL: "http://127.0.0.1:1", KeyEnv: "NONE_KEY"}} {
			o := agents.Options{APIs: map[string]agents.API{"mine": a}}
			mine, err := agents.New("mine", o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = mine.Run(t.Context(), judging(t), nil)
			for _, err := range []error{err, agents.Check(t.Context(), "mine", o)} {
				if f := failure(t, err); f.Code != string(trellis.AgentAuth) || !strings.Contains(f.Detail, "_KEY is not set") {
					t.Errorf("%+v: got %+v, want %s", a, f, trellis.AgentAuth)
				}
			}
			o.Environ = append(env, "NONE_KEY=x")
			if err := agents.Check(t.Context(), "mine", o); err != nil {
				t.Errorf("%+v with a key: got %v", a, err)
			}
		}
	}
	if _, err := agents.New("nobody", agents.Options{APIs: map[string]agents.API{"mine": {}}}); !errors.Is(err, agents.ErrUnknown) || !strings.Contains(err.Error(), "mine") {
		t.Errorf("got %v", err)
	}
	if _, err := agents.New("mine", agents.Options{APIs: map[string]agents.API{"mine": {Kind: "gopher"}}}); err == nil {
		t.Error("an api that does not exist is taken")
	}
}

// TestAPIThroughProxy: the proxy variables of the environment in the options count, and no others.
func TestAPIThroughProxy(t *testing.T) {
	var through atomic.Int32
	model := serve(t, modelserver.Play(modelserver.Turn{Text: agentstest.Text}))
	proxy := raw(t, func(w http.ResponseWriter, r *http.Request) {
		through.Add(1)
		out, err := http.Post(model.URL+"/v1/chat/completions", "application/json", r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Body.Close()
		io.Copy(w, out.Body) //nolint:errcheck
	})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, tt := range []struct {
		host string
		env  []string
		want bool
	}{
		{"model.invalid", []string{"http_proxy=" + proxy}, true},
		{"model.invalid", []string{"HTTP_PROXY=" + strings.TrimPrefix(proxy, "http://")}, true},
		{"model.invalid", []string{"ALL_PROXY=" + proxy}, true},
		{"model.invalid", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=other.invalid, .model.invalid,invalid.example,model.invalid:81"}, true},
		{"model.invalid", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=other.invalid, model.invalid"}, false},
		{"a.model.invalid", []string{"HTTP_PROXY=" + proxy, "no_proxy=.MODEL.invalid"}, false},
		{"a.model.invalid", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=*.model.invalid"}, false},
		{"model.invalid", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=model.invalid:80"}, false},
		{"model.invalid", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=*"}, false},
		{"127.0.0.2:1", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=10.0.0.0/8"}, false},
		{"10.1.2.3", []string{"HTTP_PROXY=" + proxy, "NO_PROXY=11.0.0.0/8"}, true},
		{"model.invalid", []string{"HTTPS_PROXY=" + proxy}, false},
	} {
		a, err := agents.New("mine", agents.Options{Environ: tt.env,
			APIs: map[string]agents.API{"mine": {Kind: agents.OpenAI, Model: "m", BaseURL: "http://" + tt.host + "/v1"}}})
		if err != nil {
			t.Fatal(err)
		}
		before := through.Load()
		r := judging(t)
		r.Limits.Wall = agentstest.Hang
		_, err = a.Run(t.Context(), r, nil)
		if got := through.Load() > before; got != tt.want || (err == nil) != tt.want {
			t.Errorf("%s with %v: went through the proxy: %v, want %v; %v", tt.host, tt.env, got, tt.want, err)
		}
	}
}

// TestAPITalk: a conversation is resumed in another process, with what was done before a failure, and without secrets.
func TestAPITalk(t *testing.T) {
	for api := range wires {
		first := true
		server := serve(t, func(r modelserver.Request) modelserver.Turn {
			switch {
			case r.Turns == 0 && strings.HasPrefix(r.Prompt, "look around"):
				return modelserver.Turn{Text: "I look.", Calls: []modelserver.Call{read("suite.env")}}
			case first:
				first = false
				return modelserver.Turn{Fail: &modelserver.Fail{Status: 500}}
			}
			return modelserver.Turn{Text: agentstest.Text}
		})
		task := t.TempDir()
		run := func(n, session, prompt string) (*agents.Result, error) {
			r := reading(t, workplace(t))
			r.Prompt, r.Session, r.Env = prompt, session, []string{"TRELLIS_TASK_DIR=" + task}
			r.RunDir = filepath.Join(task, "run", "1", "research", n)
			if err := os.MkdirAll(r.RunDir, 0o700); err != nil {
				t.Fatal(err)
			}
			return direct(t, api, server.URL).Run(t.Context(), r, nil)
		}
		res, err := run("1", "", "look around "+agentstest.Secret)
		if f := failure(t, err); f.Code != string(trellis.ProviderDown) || res.Session != "1/research/1" {
			t.Fatalf("%s: got %+v, %v", api, res, err)
		}
		res, err = run("2", res.Session, "go on")
		if err != nil || res.Session != "1/research/1" || res.Text != agentstest.Text {
			t.Fatalf("%s: got %+v, %v", api, res, err)
		}
		all := server.Requests()
		if told := strings.Join(all[1].ToolResults, ""); told != "1\t***\n" {
			t.Errorf("%s: the model is told %q", api, told)
		}
		body := string(all[len(all)-1].Raw)
		for _, want := range []string{"look around", "I look.", "read_file", `***`, "go on"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the conversation lacks %q: %s", api, want, body)
			}
		}
		talk := get(t, task, "run", "1", "research", "1", "conversation.json")
		if strings.Contains(talk, agentstest.Secret) || strings.Contains(body, agentstest.Secret) || !strings.Contains(talk, agentstest.Text) {
			t.Errorf("%s: got conversation.json %s", api, talk)
		}
		for _, session := range []string{"1/research/7", "../../x", "0a1b2c", task} {
			if _, err := run("3", session, "go on"); failure(t, err).Code != string(trellis.AgentProtocol) {
				t.Errorf("%s: session %s: got %v", api, session, err)
			}
		}
	}
}

// TestAPIStreamIsReadAgain: a reader of stream.jsonl sees the events of the run.
func TestAPIStreamIsReadAgain(t *testing.T) {
	server := serve(t, asked[agentstest.Answers])
	r := reading(t, workplace(t))
	var want []agents.Event
	if _, err := direct(t, agents.Anthropic, server.URL).Run(t.Context(), r, func(e agents.Event) { want = append(want, e) }); err != nil {
		t.Fatal(err)
	}
	decode := agents.Decoder("mine")
	var got []agents.Event
	for line := range strings.Lines(get(t, r.RunDir, "stream.jsonl")) {
		got = append(got, decode(strings.TrimSuffix(line, "\n"))...)
	}
	if fmt.Sprintf("%+v", kinds(got)) != fmt.Sprintf("%+v", kinds(want)) || len(got) < 8 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func kinds(events []agents.Event) (list []string) {
	for _, e := range events {
		list = append(list, string(e.Kind)+" "+e.Tool+" "+e.Input+" "+e.Text)
	}
	return list
}
