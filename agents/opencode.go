package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// openCode is opencode's run command, version 1.18 and newer. Its permissions are those of an agent
// definition that is written for the run; what is denied there is not even offered to the model, and
// nothing is asked.
//
//	none  everything denied
//	read  read, glob, grep, list
//	edit  everything inside of the working directory; no web, no other directory for file tools, no
//	      subagents (they would not inherit the denials); the shell is not confined to the directory
//	full  everything
//
// What its provider refuses it tries again in silence; only its log tells of it.
type openCode struct{ o Options }

func openCodePermission(p trellis.Permission) string {
	switch p {
	case trellis.PermitRead:
		return `{"*": deny, read: allow, glob: allow, grep: allow, list: allow, external_directory: deny}`
	case trellis.PermitEdit:
		return `{"*": allow, external_directory: deny, task: deny, webfetch: deny, websearch: deny, question: deny, doom_loop: deny}`
	case trellis.PermitFull:
		return `{"*": allow, question: deny, doom_loop: deny}`
	}
	return `{"*": deny}`
}

var (
	openCodeEnv = []string{"OPENCODE_*", "XDG_*", "ANTHROPIC_*", "OPENAI_*", "AZURE_OPENAI_*", "AZURE_RESOURCE_NAME", "AZURE_API_KEY", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_GENERATIVE_*", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GEMINI_*", "VERTEX_*",
		"OPENROUTER_*", "GROQ_*", "MISTRAL_*", "DEEPSEEK_*", "XAI_*", "OLLAMA_*", "LITELLM_*", "npm_config_registry"}
	// The registry is one that is not there: it would be asked for a plugin to put beside every
	// config, also into a repository.
	openCodeDefaults = []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=http://127.0.0.1:1/"}
	openCodeNames = trellis.Pattern(`\{env:(\w+)\}`)
)

// openCodeAgent is the name of the agent definition.
const openCodeAgent = "trellis"

func (c openCode) begin(r Request) (*start, error) {
	path, err := c.o.find(OpenCode)
	if err != nil {
		return nil, fail(trellis.AgentMissing, "%s", err)
	}
	config := filepath.Join(r.RunDir, "opencode")
	if err := writeOpenCodeAgent(filepath.Join(config, "agents"), r); err != nil {
		return nil, fmt.Errorf("writing the agent definition: %w", err)
	}
	argv := []string{path, "run", "--format", "json", "--title", "trellis " + string(r.Role), "--dir", r.Dir, "--agent", openCodeAgent,
		"--print-logs", "--log-level", "ERROR"}
	if r.Model != "" {
		argv = append(argv, "--model", r.Model)
	}
	if r.Session != "" {
		argv = append(argv, "--session", r.Session)
	}
	return &start{
		argv: argv, env: c.o.environ(c.allow(r.Model), openCodeDefaults, []string{"OPENCODE_CONFIG_DIR=" + config}, r),
		stdin: strings.NewReader(strings.ToValidUTF8(r.Prompt, "\uFFFD")), reader: &openCodeStream{last: int64(len(r.Prompt)+len(r.System)) / 4}, own: c.o.openCodeOwn(config, r.Model),
	}, nil
}

// allow are the variables for a call: those that its settings name, and a cloud's accounts where the model, or a setting, names
// that cloud.
func (c openCode) allow(model string) []string {
	allow := slices.Clone(openCodeEnv)
	for _, file := range c.configs() {
		allow = append(allow, namesIn(file, openCodeNames())...)
	}
	for provider, names := range map[string][]string{"amazon-bedrock": {"AWS_*"}, "google-vertex": {"GOOGLE_*"}, "azure": {"AZURE_*"}} {
		if strings.HasPrefix(model, provider) || mentions(provider, append(c.configs(), filepath.Join(c.o.home("XDG_STATE_HOME", ".local", "state"), "opencode", "model.json"))...) {
			allow = append(allow, names...)
		}
	}
	return allow
}

// configs are the config files of the user.
func (c openCode) configs() []string {
	dir := filepath.Join(c.o.home("XDG_CONFIG_HOME", ".config"), "opencode")
	files := []string{filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc")}
	if file := lookup(c.o.Environ, "OPENCODE_CONFIG"); file != "" {
		files = append(files, file)
	}
	return files
}

// writeOpenCodeAgent writes the definition: permissions, and as its system prompt the rules of form.
func writeOpenCodeAgent(dir string, r Request) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	system := cmp.Or(r.System, "You work on one task without anybody to ask. Do what the user says, then say briefly what you did.")
	text := fmt.Sprintf("---\ndescription: works on one task\nmode: primary\npermission: %s\n---\n%s\n", openCodePermission(r.Permission), system)
	return durable.WriteOwn(filepath.Join(dir, openCodeAgent+".md"), []byte(text), 0o600)
}

// openCodeStream reads --format json.
type openCodeStream struct {
	usage  trellis.Usage
	cost   float64
	reason string // of the last step
	idle   int    // steps in a row that came to nothing
	begun  bool   // a step is under way, of which nothing is told before its end
	last   int64  // tokens of the last step, or of the prompt
}

// maxIdleSteps is how often it may ask a model that answers in no known form; it has no limit of its own.
const maxIdleSteps = 3

type openCodeEvent struct {
	Type    string
	Session string `json:"sessionID"`
	Part    struct {
		Text   string
		Tool   string
		Reason string
		State  struct {
			Status string
			Input  json.RawMessage
			Error  string
			Output string

			Metadata struct{ Exit int }
		}
		Tokens struct {
			Input, Output, Reasoning int64
			Cache                    struct{ Read, Write int64 }
		}
		Cost float64
	}
	Error struct {
		Name string
		Data struct {
			Message    string
			StatusCode int
			Retryable  bool              `json:"isRetryable"`
			Headers    map[string]string `json:"responseHeaders"`
		}
	}
}

func (c *openCodeStream) line(line string, t *tally) bool {
	var e openCodeEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	t.session(e.Session)
	t.waiting = nil
	switch e.Type {
	case "step_start":
		c.begun = true
		t.goesOn()
	case "text":
		c.idle = 0
		t.text(e.Part.Text)
	case "tool_use":
		c.idle = 0
		t.tool(e.Part.Tool, e.Part.State.Input)
		t.toolEnded(e.Part.State.Status != "error" && e.Part.State.Metadata.Exit == 0, e.Part.State.Error+e.Part.State.Output)
		if e.Part.State.Status == "error" {
			t.notice(e.Part.Tool + ": " + e.Part.State.Error)
		}
	case "step_finish":
		c.step(e, t)
	case "error":
		if t.failure == nil {
			t.failure = openCodeFailure(e)
		}
	}
	return true
}

func (c *openCodeStream) step(e openCodeEvent, t *tally) {
	tokens := e.Part.Tokens
	c.begun, c.last = false, tokens.Input+tokens.Cache.Write+tokens.Cache.Read+tokens.Output+tokens.Reasoning
	c.usage.InputTokens += tokens.Input + tokens.Cache.Write
	c.usage.CachedTokens += tokens.Cache.Read
	c.usage.OutputTokens += tokens.Output + tokens.Reasoning
	t.written += tokens.Cache.Write
	if c.cost += e.Part.Cost; c.cost > 0 { // it knows no price otherwise
		cost := c.cost
		c.usage.CostUSD = &cost
	}
	if c.reason = e.Part.Reason; c.reason == "stop" {
		t.finished(c.reason)
	}
	t.usage(c.usage)
	switch c.reason {
	case "stop", "tool-calls":
	default:
		if c.idle++; c.idle >= maxIdleSteps {
			t.watchdog.end(fail(trellis.AgentProtocol, "the model's answers are in no known form (%s)", c.reason))
		}
	}
}

// account estimates what a step used that was cut off, and that opencode itself does not know: it was asked at least
// all that the step before was asked and answered.
func (c *openCodeStream) account(t *tally, cutOff bool) {
	if cutOff && c.begun {
		c.usage.InputTokens += c.last
		t.usage(c.usage)
	}
}

func openCodeFailure(e openCodeEvent) *flow.Failure {
	data := e.Error.Data
	detail := strings.TrimSpace(e.Error.Name + ": " + data.Message)
	switch e.Error.Name {
	case "ContextOverflowError":
		return fail(trellis.ContextOverflow, "%s", detail)
	case "ProviderAuthError":
		return fail(trellis.AgentAuth, "%s", detail)
	}
	header := http.Header{}
	for name, value := range data.Headers {
		header.Set(name, value)
	}
	if f := byStatus(data.StatusCode, resumeAt(header, time.Now()), detail); f != nil {
		return f
	}
	if e.Error.Name == "APIError" && data.StatusCode == 0 && data.Retryable { // no answer came, or half of one
		return fail(trellis.ProviderDown, "%s", detail)
	}
	return fail(trellis.AgentExit, "%s", detail)
}

// openCodeLog is a line of its log, and what it says of an error.
var openCodeLog = trellis.Pattern(`^timestamp=\S+ level=ERROR .*?\bmessage=("[^"]*"|\S+).*?\berror(?:\.error)?=("(?:[^"\\]|\\.)*"|\S+)`)

// openCodeError is what a line of its log says went wrong, and whether the provider did it.
func openCodeError(line string) (words string, provider bool) {
	m := openCodeLog().FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	words = m[2]
	if plain, err := strconv.Unquote(words); err == nil {
		words = plain
	}
	words, _, _ = strings.Cut(words, " (cause: ")
	call, provider := strings.CutPrefix(words, "AI_APICallError: ")
	return call, provider && m[1] == `"stream error"`
}

// limitWords are the words of providers for too many requests.
var limitWords = []string{"rate limit", "rate_limit", "ratelimit", "too many requests", "usage limit", "slow down"}

// complaint takes in why it is going to be silent. The log has the provider's words and not its status.
func (c *openCodeStream) complaint(line string, t *tally) {
	words, provider := openCodeError(line)
	if !provider {
		return
	}
	t.notice("the provider refuses: " + words)
	low := strings.ToLower(words)
	switch {
	case exhausted(words):
		t.waiting = fail(trellis.QuotaExhausted, "%s", words)
		t.watchdog.end(t.waiting) // else it tries six times
	case slices.ContainsFunc(limitWords, func(w string) bool { return strings.Contains(low, w) }):
		t.waiting = limited(time.Time{}, words)
	default:
		t.waiting = fail(trellis.ProviderDown, "%s", words)
	}
}

// end finds the ends that exit 0 hides: another agent than ours played, or the work was cut short.
func (c *openCodeStream) end(t *tally, e ending) *flow.Failure {
	t.result.Stop = c.reason
	switch {
	case strings.Contains(e.stderr, `agent "`+openCodeAgent+`" not found`):
		return fail(trellis.AgentExit, "opencode did not take the agent definition: %s", lastLines(e.stderr))
	case e.Code == 0 && c.reason != "" && !t.done:
		return fail(trellis.AgentProtocol, "opencode stopped in the middle of its work (%s); %s", c.reason, e)
	}
	return nil
}
