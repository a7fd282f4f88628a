package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// API is a model that is called directly, without a program. It can play roles that only answer, or that also read.
//
//	none  no tools
//	read  read_file, list_files and search, which stay in the working directory and keep out of .git
//	edit  refused, as is full
//
// A session is the conversation so far, stored as conversation.json in the RunDir in which it began. stream.jsonl holds the
// events of the run, and stderr.log the answers with which the server refused requests.
type API struct {
	Kind    string // anthropic: Messages; openai: chat completions, which many servers speak
	Model   string
	BaseURL string // "" means the provider's own server
	// KeyEnv names the variable that holds the key. The default is ANTHROPIC_API_KEY or OPENAI_API_KEY for the provider's own
	// server, and no key for any other server: a key is sent only to the server that it was meant for.
	KeyEnv string
}

// Kinds of [API].
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

// keyEnv returns the name of the variable that holds the key, or "" if no key is sent.
func (a API) keyEnv() string {
	switch {
	case a.KeyEnv != "" || a.BaseURL != "":
		return a.KeyEnv
	case a.Kind == Anthropic:
		return "ANTHROPIC_API_KEY"
	}
	return "OPENAI_API_KEY"
}

// key returns the key from env, "" if none is sent, or an agent_auth failure if the variable is not set.
func (a API) key(env []string) (string, error) {
	name := a.keyEnv()
	if name == "" {
		return "", nil
	}
	if key := strings.TrimSpace(lookup(env, name)); key != "" {
		return key, nil
	}
	return "", fail(trellis.AgentAuth, "%s is not set, which holds the key", name)
}

// apiAgent is an agent that calls a model without a program.
type apiAgent struct {
	name string
	api  API
	o    Options
}

func newAPIAgent(name string, o Options) (Agent, error) {
	api := o.APIs[name]
	if api.Kind != Anthropic && api.Kind != OpenAI {
		return nil, fmt.Errorf("agent %s: there is no api %q", name, api.Kind)
	}
	return apiAgent{name, api, o}, nil
}

func (d apiAgent) Run(ctx context.Context, r Request, emit func(Event)) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if r.Permission != trellis.PermitNone && r.Permission != trellis.PermitRead {
		return nil, fail(trellis.AgentMissing, "%s is a model without a program: it can answer and read, and role %s has permission %s; choose another agent for it",
			d.name, r.Role, r.Permission)
	}
	key, err := d.api.key(d.o.Environ)
	if err != nil {
		return nil, err
	}
	logs, err := openLogs(r.RunDir, append(d.o.secrets(slices.Concat(d.o.Environ, r.Env)), key))
	if err != nil {
		return nil, err
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tally{watchdog: newWatchdog(r, d.o.grace(), end), emit: logs.events(emit, end), prices: d.o.Prices}
	t.result.Model = cmp.Or(r.Model, d.api.Model)
	began := time.Now()
	err = d.converse(within, r, key, t, logs)
	t.watchdog.stop()
	t.result.Usage.Seconds = time.Since(began).Seconds()
	switch {
	case err == nil:
		t.event(Event{Kind: EventResult, Text: t.result.Text})
	case within.Err() != nil:
		err = context.Cause(within)
	}
	return &t.result, errors.Join(err, logs.close())
}

// converse carries out the conversation that a request asks for.
func (d apiAgent) converse(ctx context.Context, r Request, key string, t *tally, logs *logs) error {
	talk, err := openConversation(r)
	if err != nil {
		return err
	}
	files := &files{}
	if r.Permission == trellis.PermitRead {
		if files, err = openFiles(r.Dir, d.o.Files); err != nil {
			return err
		}
		defer files.Close()
	}
	server := &server{client: d.o.client(), onReceive: t.watchdog.restartIdle, log: logs.mask}
	defer server.client.CloseIdleConnections()
	c := &chat{conversation: talk, files: files, tally: t, redact: logs.redact.String}
	switch d.api.Kind {
	case Anthropic:
		c.wire = newMessages(d.api, key, server)
	default:
		c.wire = newCompletions(d.api, key, server)
	}
	c.question = question{model: t.result.Model, system: r.System, tools: files.tools(), schema: r.Schema}
	t.session(talk.id)
	return c.run(ctx, strings.ToValidUTF8(r.Prompt, "\uFFFD"))
}
