package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// claude is Claude Code in print mode, version 2.1.197 and newer.
//
//	none  no tools at all
//	read  Read, Glob, Grep; what needs asking is refused, which is all outside of the working directory
//	edit  also Edit, Write, Bash; edits inside the working directory are accepted, others refused;
//	      the shell is not confined to it
//	full  everything, without asking
//
// MCP servers are off, and so are the program's own expansions of the prompt: "@path" would hand over any file that the author of
// the prompt names, and a "/" at the beginning would run a command.
type claude struct{ o Options }

func claudePermission(p trellis.Permission) []string {
	switch p {
	case trellis.PermitRead:
		return []string{"--tools", "Read,Glob,Grep"}
	case trellis.PermitEdit:
		return []string{"--tools", "Read,Glob,Grep,Edit,Write,NotebookEdit,Bash,Task,TaskOutput,TaskStop,TodoWrite",
			"--permission-mode", "acceptEdits", "--allowedTools", "Bash"}
	case trellis.PermitFull:
		return []string{"--dangerously-skip-permissions"}
	}
	return []string{"--tools", ""}
}

var (
	claudeEnv = []string{"ANTHROPIC_*", "CLAUDE_*", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "CLOUD_ML_REGION", "VERTEX_*", "XDG_*",
		"DISABLE_*", "API_TIMEOUT_MS", "BASH_*", "MAX_THINKING_TOKENS"}
	// By default it retries ten times, even after a refused key, which takes three minutes. Its instructions about git contain
	// the status of the files: with them no two calls begin with the same text, and the provider's cache is never hit.
	claudeDefaults = []string{"CLAUDE_CODE_MAX_RETRIES=2", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS=1"}
	claudeFixed = []string{"CLAUDE_CODE_DISABLE_ATTACHMENTS=1"}
)

// claudeVariables returns the variables for claude. Those of a cloud account are included only if other variables select that cloud.
func (o Options) claudeVariables() []string {
	allow := slices.Clone(claudeEnv)
	if lookup(o.Environ, "CLAUDE_CODE_USE_BEDROCK") != "" {
		allow = append(allow, "AWS_*")
	}
	if lookup(o.Environ, "CLAUDE_CODE_USE_VERTEX") != "" {
		allow = append(allow, "GOOGLE_*", "GCLOUD_*")
	}
	return allow
}

// claudeStaticPrompt moves the working directory and other text that differs from call to call behind the system prompt. Without it,
// calls from different worktrees begin differently, and the provider's cache is never hit.
const claudeStaticPrompt = "--exclude-dynamic-system-prompt-sections"

func (c claude) invocation(r Request) (*invocation, error) {
	path, err := c.o.find(Claude)
	if err != nil {
		return nil, fail(trellis.AgentMissing, "%s", err)
	}
	argv := []string{path, "-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--disable-slash-commands", claudeStaticPrompt}
	argv = append(argv, claudePermission(r.Permission)...)
	if r.Model != "" {
		argv = append(argv, "--model", r.Model)
	}
	if r.Session != "" {
		argv = append(argv, "--resume", r.Session)
	}
	if r.Schema != nil {
		argv = append(argv, "--json-schema", string(r.Schema))
	}
	if r.Limits.CostUSD > 0 {
		argv = append(argv, "--max-budget-usd", strconv.FormatFloat(r.Limits.CostUSD, 'f', -1, 64))
	}
	if r.System != "" {
		file := filepath.Join(r.RunDir, "system.md")
		if err := durable.WriteOwn(file, []byte(r.System), 0o600); err != nil {
			return nil, fmt.Errorf("writing the system prompt: %w", err)
		}
		argv = append(argv, "--append-system-prompt-file", file)
	}
	fixed := claudeFixed
	if r.Permission == trellis.PermitFull && os.Geteuid() == 0 {
		fixed = append([]string{"IS_SANDBOX=1"}, fixed...)
	}
	return &invocation{
		argv: argv, env: c.o.environ(c.o.claudeVariables(), claudeDefaults, fixed, r),
		stdin: strings.NewReader(claudePrompt(r.Prompt)), reader: &claudeStream{messageUsage: map[string]claudeMessageUsage{}}, own: c.o.prepareClaude(),
	}, nil
}

// claudePrompt prevents the program from taking a prompt that begins with a slash for a command.
func claudePrompt(prompt string) string {
	prompt = strings.ToValidUTF8(prompt, "\uFFFD")
	if strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		return "The request:\n\n" + prompt
	}
	return prompt
}

// claudeStream reads the output of --output-format stream-json.
type claudeStream struct {
	messageUsage  map[string]claudeMessageUsage // by message id: several events of one message repeat its usage
	errorKind     string                        // the program's name for the error
	providerDown  bool                          // the provider failed, and has not answered since
	usedUpWindows map[string]time.Time          // rate limit windows that are used up, and when each resets
}

type claudeEvent struct {
	Type, Subtype string
	SessionID     string `json:"session_id"`
	Model         string // set in the first event
	Parent        string `json:"parent_tool_use_id"` // not empty in events of subagents
	Error         string
	Message       struct {
		ID      string
		Model   string
		Content json.RawMessage
		Usage   claudeUsage
	}
	Attempt     int
	MaxRetries  int     `json:"max_retries"`
	RetryDelay  float64 `json:"retry_delay_ms"`
	ErrorStatus int     `json:"error_status"`
	Limit       struct {
		Status   string
		Window   string `json:"rateLimitType"`
		ResetsAt int64  `json:"resetsAt"`
	} `json:"rate_limit_info"`

	IsError    bool            `json:"is_error"`
	APIStatus  int             `json:"api_error_status"`
	Result     string          `json:"result"`
	Structured json.RawMessage `json:"structured_output"`
	StopReason string          `json:"stop_reason"`
	Terminal   string          `json:"terminal_reason"`
	Cost       dollars         `json:"total_cost_usd"`
	Usage      claudeUsage
	Models     map[string]claudeModelUsage `json:"modelUsage"`
	Denials    []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

// claudeMessageUsage is the usage of a message and its model: subagents may use another model.
type claudeMessageUsage struct {
	model string
	claudeUsage
}

type claudeUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
}

// claudeModelUsage is the total usage of a model, including that of subagents and of answers that were not streamed.
type claudeModelUsage struct {
	Input   int64 `json:"inputTokens"`
	Output  int64 `json:"outputTokens"`
	Read    int64 `json:"cacheReadInputTokens"`
	Created int64 `json:"cacheCreationInputTokens"`
}

// totalUsage returns the total usage of a run according to its result event.
func (e claudeEvent) totalUsage() (sum trellis.Usage) {
	for _, m := range e.Models {
		sum = sum.Add(claudeUsage(m).usage())
	}
	if u := e.Usage.usage(); u.Tokens() > sum.Tokens() {
		return u
	}
	return sum
}

func (u claudeUsage) usage() trellis.Usage {
	return trellis.Usage{InputTokens: u.Input + u.Created, OutputTokens: u.Output, CachedTokens: u.Read}
}

func (c *claudeStream) line(line string, t *tally) bool {
	var e claudeEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	if e.Type == "system" && e.Subtype == "api_retry" {
		c.recordRetry(e, t)
		return true
	}
	t.waitReason, t.reportsCost = nil, true
	t.session(e.SessionID)
	switch e.Type {
	case "system":
		t.result.Model = cmp.Or(e.Model, t.result.Model)
	case "assistant":
		c.recordMessage(e, t)
	case "user":
		c.recordToolResults(e, t)
	case "rate_limit_event":
		c.recordWindow(e.Limit.Window, e.Limit.Status == "rejected", e.Limit.ResetsAt)
	case "result":
		c.recordResult(e, t)
	}
	return true
}

// recordWindow records whether one of the provider's rate limit windows is used up, and when it resets.
func (c *claudeStream) recordWindow(name string, closed bool, opens int64) {
	if c.usedUpWindows == nil {
		c.usedUpWindows = map[string]time.Time{}
	}
	if delete(c.usedUpWindows, name); closed && opens > 0 {
		c.usedUpWindows[name] = time.Unix(opens, 0)
	}
}

// resetTime returns the time when the last of the windows that are used up resets, or zero if that is not known.
func (c *claudeStream) resetTime() (last time.Time) {
	for _, at := range c.usedUpWindows {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (c *claudeStream) recordRetry(e claudeEvent, t *tally) {
	delay := time.Duration(e.RetryDelay) * time.Millisecond
	detail := fmt.Sprintf("the provider answered %d (%s), try %d of %d", e.ErrorStatus, e.Error, e.Attempt, e.MaxRetries)
	t.notice(detail)
	t.waitReason = statusFailure(e.ErrorStatus, time.Now().Add(delay), detail)
	if c.providerDown = e.ErrorStatus == 0 || e.ErrorStatus >= 500; c.providerDown { // status 0 means that the network failed
		t.waitReason = fail(trellis.ProviderDown, "%s", detail)
	}
}

func (c *claudeStream) recordMessage(e claudeEvent, t *tally) {
	if e.Error != "" {
		c.errorKind = e.Error
		return
	}
	c.providerDown = false
	var blocks []struct {
		Type, Text, Name string
		Input            json.RawMessage
	}
	json.Unmarshal(e.Message.Content, &blocks) //nolint:errcheck // content that is not a list says nothing
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use":
			t.tool(b.Name, b.Input)
		case b.Type == "text" && e.Parent == "":
			t.text(b.Text)
		}
	}
	if s := (claudeMessageUsage{e.Message.Model, e.Message.Usage}); e.Message.ID != "" && s != c.messageUsage[e.Message.ID] {
		c.messageUsage[e.Message.ID] = s
		t.usage(c.totalUsage(t))
	}
}

// correctUsage estimates the cost of a run that was cut off before it reported the cost.
func (c *claudeStream) correctUsage(t *tally, _ bool) {
	if u := t.result.Usage; u.CostUSD == nil && u.Tokens() > 0 {
		t.reportsCost = false
		sum := c.totalUsage(t)
		u.CostUSD, u.CostEstimated, u.CostPartial = sum.CostUSD, sum.CostEstimated, sum.CostPartial
		t.usage(u)
	}
}

// totalUsage returns the usage of all messages so far.
func (c *claudeStream) totalUsage(t *tally) (sum trellis.Usage) {
	t.cacheWritten = 0
	for _, s := range c.messageUsage {
		sum = sum.Add(t.withEstimatedCost(s.model, s.usage(), s.Created))
		t.cacheWritten += s.Created
	}
	return sum
}

// recordToolResults records how tool calls ended.
func (c *claudeStream) recordToolResults(e claudeEvent, t *tally) {
	var blocks []struct {
		Type    string
		Failed  bool `json:"is_error"`
		Content json.RawMessage
	}
	json.Unmarshal(e.Message.Content, &blocks) //nolint:errcheck // content that is not a list says nothing
	for _, b := range blocks {
		if b.Type == "tool_result" {
			t.toolEnded(!b.Failed, string(b.Content))
		}
	}
}

func (c *claudeStream) recordResult(e claudeEvent, t *tally) {
	for _, d := range e.Denials {
		t.notice("refused: " + d.Tool + " " + brief(d.Input))
	}
	if len(e.Structured) > 0 && string(e.Structured) != "null" {
		t.result.Answer = e.Structured
	}
	if e.IsError || e.Subtype != "success" {
		t.failure = c.failure(e)
	} else {
		t.result.Text = e.Result
	}
	u := e.totalUsage()
	if told := t.result.Usage; t.failure != nil && u.Tokens() < told.Tokens() {
		u = told // the result of an interrupted turn leaves out the usage of its messages
	}
	u.CostUSD, u.CostEstimated = e.Cost.amount, false
	t.markFinished(strings.TrimSpace(e.Subtype + " " + e.StopReason))
	t.usage(u)
}

func (c *claudeStream) failure(e claudeEvent) *flow.Failure {
	detail := cmp.Or(e.Result, e.Subtype+" "+e.Terminal)
	switch {
	case e.Subtype == "error_max_budget_usd":
		return fail(trellis.BudgetCost, "%s", detail)
	case e.Terminal == "prompt_too_long":
		return fail(trellis.ContextOverflow, "%s", detail)
	case c.errorKind == "billing_error", isQuotaExhausted(detail):
		return fail(trellis.QuotaExhausted, "%s", detail)
	case c.errorKind == "rate_limit":
		return rateLimitFailure(c.resetTime(), detail)
	case c.errorKind == "authentication_failed":
		return fail(trellis.AgentAuth, "%s", detail)
	}
	if f := statusFailure(e.APIStatus, c.resetTime(), detail); f != nil {
		return f
	}
	if c.providerDown && c.errorKind != "" || c.errorKind == "server_error" || c.errorKind == "overloaded" || strings.Contains(detail, "Unable to connect to API") {
		return fail(trellis.ProviderDown, "%s", detail)
	}
	return fail(trellis.AgentExit, "%s", detail)
}

func (c *claudeStream) end(t *tally, e ending) *flow.Failure {
	if strings.Contains(e.stderr, "unknown option '"+claudeStaticPrompt) {
		f := fail(trellis.AgentExit, "this claude is too old, 2.1.197 or newer is needed (claude update): %s", lastLines(e.stderr))
		f.Retryable = false
		return f
	}
	return nil
}
