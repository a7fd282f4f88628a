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

// openCode is the run command of opencode, version 1.18 and newer. Its permissions are those of an agent definition that is
// written for the run; tools that are denied there are not even offered to the model, and nobody is asked.
//
//	none  everything denied
//	read  read, glob, grep, list
//	edit  everything inside of the working directory; no web, no other directory for file tools, no
//	      subagents (they would not inherit the denials); the shell is not confined to the directory
//	full  everything
//
// It silently retries requests that the provider refuses; only its log mentions that.
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
	// No registry listens at this address. opencode would fetch a plugin from a real one and put it beside every config, even
	// into a repository.
	openCodeDefaults = []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=http://127.0.0.1:1/"}
	openCodeNames = trellis.Pattern(`\{env:(\w+)\}`)
)

// openCodeAgent is the name of the agent definition.
const openCodeAgent = "trellis"

func (c openCode) invocation(r Request) (*invocation, error) {
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
	return &invocation{
		argv: argv, env: c.o.environ(c.variables(r.Model), openCodeDefaults, []string{"OPENCODE_CONFIG_DIR=" + config}, r),
		stdin: strings.NewReader(strings.ToValidUTF8(r.Prompt, "\uFFFD")), reader: &openCodeStream{lastStepTokens: int64(len(r.Prompt)+len(r.System)) / 4}, own: c.o.prepareOpenCode(config, r.Model),
	}, nil
}

// variables returns the variables for a call: those that the settings name, and those of a cloud account if the model or a setting
// names that cloud.
func (c openCode) variables(model string) []string {
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

// configs returns the paths of the user's config files.
func (c openCode) configs() []string {
	dir := filepath.Join(c.o.home("XDG_CONFIG_HOME", ".config"), "opencode")
	files := []string{filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc")}
	if file := lookup(c.o.Environ, "OPENCODE_CONFIG"); file != "" {
		files = append(files, file)
	}
	return files
}

// writeOpenCodeAgent writes the agent definition: the permissions, and the request's System as its system prompt.
func writeOpenCodeAgent(dir string, r Request) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	system := cmp.Or(r.System, "You work on one task without anybody to ask. Do what the user says, then say briefly what you did.")
	text := fmt.Sprintf("---\ndescription: works on one task\nmode: primary\npermission: %s\n---\n%s\n", openCodePermission(r.Permission), system)
	return durable.WriteOwn(filepath.Join(dir, openCodeAgent+".md"), []byte(text), 0o600)
}

// openCodeStream reads the output of --format json.
type openCodeStream struct {
	usage          trellis.Usage
	cost           float64
	reason         string // finish reason of the last step
	idleSteps      int    // consecutive steps with an unknown finish reason and no text or tool call
	stepOpen       bool   // a step has started; its usage is not reported before its end
	lastStepTokens int64  // tokens of the last step; before the first one, an estimate for the prompt
}

// maxIdleSteps is how many answers in a row may have an unknown form before the run is ended; opencode itself has no limit.
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
	t.waitReason = nil
	switch e.Type {
	case "step_start":
		c.stepOpen = true
		t.markUnfinished()
	case "text":
		c.idleSteps = 0
		t.text(e.Part.Text)
	case "tool_use":
		c.idleSteps = 0
		t.tool(e.Part.Tool, e.Part.State.Input)
		t.toolEnded(e.Part.State.Status != "error" && e.Part.State.Metadata.Exit == 0, e.Part.State.Error+e.Part.State.Output)
		if e.Part.State.Status == "error" {
			t.notice(e.Part.Tool + ": " + e.Part.State.Error)
		}
	case "step_finish":
		c.recordStep(e, t)
	case "error":
		if t.failure == nil {
			t.failure = openCodeFailure(e)
		}
	}
	return true
}

func (c *openCodeStream) recordStep(e openCodeEvent, t *tally) {
	tokens := e.Part.Tokens
	c.stepOpen, c.lastStepTokens = false, tokens.Input+tokens.Cache.Write+tokens.Cache.Read+tokens.Output+tokens.Reasoning
	c.usage.InputTokens += tokens.Input + tokens.Cache.Write
	c.usage.CachedTokens += tokens.Cache.Read
	c.usage.OutputTokens += tokens.Output + tokens.Reasoning
	t.cacheWritten += tokens.Cache.Write
	if c.cost += e.Part.Cost; c.cost > 0 { // 0 means that opencode knows no price
		cost := c.cost
		c.usage.CostUSD = &cost
	}
	if c.reason = e.Part.Reason; c.reason == "stop" {
		t.markFinished(c.reason)
	}
	t.usage(c.usage)
	switch c.reason {
	case "stop", "tool-calls":
	default:
		if c.idleSteps++; c.idleSteps >= maxIdleSteps {
			t.watchdog.end(fail(trellis.AgentProtocol, "the model's answers are in no known form (%s)", c.reason))
		}
	}
}

// correctUsage estimates the usage of a step that was cut off and that opencode itself does not report: its input was at least the
// whole input and output of the step before.
func (c *openCodeStream) correctUsage(t *tally, cutOff bool) {
	if cutOff && c.stepOpen {
		c.usage.InputTokens += c.lastStepTokens
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
	if f := statusFailure(data.StatusCode, resumeAt(header, time.Now()), detail); f != nil {
		return f
	}
	if e.Error.Name == "APIError" && data.StatusCode == 0 && data.Retryable { // there was no answer, or half of one
		return fail(trellis.ProviderDown, "%s", detail)
	}
	return fail(trellis.AgentExit, "%s", detail)
}

// openCodeLog matches a line of opencode's log that reports an error.
var openCodeLog = trellis.Pattern(`^timestamp=\S+ level=ERROR .*?\bmessage=("[^"]*"|\S+).*?\berror(?:\.error)?=("(?:[^"\\]|\\.)*"|\S+)`)

// openCodeError returns the error that a line of opencode's log reports, and whether it came from the provider.
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

// limitWords are substrings of providers' messages that mean too many requests.
var limitWords = []string{"rate limit", "rate_limit", "ratelimit", "too many requests", "usage limit", "slow down"}

// stderrLine records why opencode is about to fall silent. The log has the provider's message but not the status.
func (c *openCodeStream) stderrLine(line string, t *tally) {
	words, provider := openCodeError(line)
	if !provider {
		return
	}
	t.notice("the provider refuses: " + words)
	low := strings.ToLower(words)
	switch {
	case isQuotaExhausted(words):
		t.waitReason = fail(trellis.QuotaExhausted, "%s", words)
		t.watchdog.end(t.waitReason) // opencode would retry six times
	case slices.ContainsFunc(limitWords, func(w string) bool { return strings.Contains(low, w) }):
		t.waitReason = rateLimitFailure(time.Time{}, words)
	default:
		t.waitReason = fail(trellis.ProviderDown, "%s", words)
	}
}

// end detects failures for which opencode exits with 0: a different agent definition was used, or the work was cut short.
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
