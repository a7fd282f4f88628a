package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// codex is the exec command of Codex CLI, version 0.169 and newer. Its sandbox is that of the operating system.
//
//	none  no shell, no subagents; the sandbox of read
//	read  the shell in a sandbox that writes nothing; it may read files outside of the directory
//	edit  writes inside of the working directory and the temporary ones; no network, no commit
//	full  no sandbox
type codex struct{ o Options }

func codexPermission(p trellis.Permission) []string {
	switch p {
	case trellis.PermitRead:
		return []string{"-s", "read-only"}
	case trellis.PermitEdit:
		return []string{"-s", "workspace-write"}
	case trellis.PermitFull:
		return []string{"--dangerously-bypass-approvals-and-sandbox"}
	}
	return []string{"-s", "read-only", "-c", "features.shell_tool=false", "-c", "features.unified_exec=false",
		"-c", "features.multi_agent=false", "-c", "features.goals=false", "-c", "features.view_image=false", "-c", `web_search="disabled"`}
}

// codexSandbox tells the model about limits that it would otherwise find out only by failed attempts.
const codexSandbox = "The sandbox lets nothing through to the network, sockets of the own machine included, and git can't commit."

var (
	codexEnv   = []string{"OPENAI_*", "CODEX_*", "AZURE_OPENAI_*", "AWS_REGION", "XDG_*"}
	codexNames = trellis.Pattern(`(?m)^\s*env_key\s*=\s*["']([A-Za-z_]\w*)["']`)
)

func (c codex) invocation(r Request) (*invocation, error) {
	path, err := c.o.find(Codex)
	if err != nil {
		return nil, fail(trellis.AgentMissing, "%s", err)
	}
	argv := []string{nativeCodex(path), "exec", "--json", "-C", r.Dir, "--skip-git-repo-check",
		"-c", `approval_policy="never"`, "-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false",
		"-c", "features.plugins=false", "-c", "features.unbounded_connection_retries=false"}
	argv = append(argv, codexPermission(r.Permission)...)
	if r.Permission == trellis.PermitEdit {
		r.System = strings.TrimSpace(r.System + "\n\n" + codexSandbox)
	}
	if r.System != "" {
		argv = append(argv, "-c", "developer_instructions="+string(jsonString(r.System)))
	}
	if r.Model != "" {
		argv = append(argv, "-m", r.Model)
	}
	if r.Schema != nil {
		file := filepath.Join(r.RunDir, "schema.json")
		if err := durable.WriteOwn(file, r.Schema, 0o600); err != nil {
			return nil, fmt.Errorf("writing the schema: %w", err)
		}
		argv = append(argv, "--output-schema", file)
	}
	if r.Session != "" {
		argv = append(argv, "resume", r.Session)
	}
	home := c.o.home("CODEX_HOME", ".codex")
	allow := c.o.codexVariables(filepath.Join(home, "config.toml"))
	return &invocation{
		argv: append(argv, "-"), env: c.o.environ(allow, nil, nil, r),
		stdin: strings.NewReader(strings.ToValidUTF8(r.Prompt, "\uFFFD")), reader: newCodexStream(home, r), own: c.o.prepareCodex(),
	}, nil
}

// codexVariables returns the variables for codex: those that its settings name, and those of AWS if the settings mention Bedrock.
func (o Options) codexVariables(settings string) []string {
	allow := slices.Concat(codexEnv, namesIn(settings, codexNames()))
	if mentions("bedrock", settings) {
		allow = append(allow, "AWS_*")
	}
	return allow
}

// nativeCodex returns the program that npm's wrapper at path starts, else path. That program starts faster and gets signals.
func nativeCodex(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Ext(real) != ".js" {
		return path
	}
	pkg := filepath.Dir(filepath.Dir(real)) // @openai/codex
	for _, below := range []string{"..", "node_modules/@openai", "."} {
		for _, pattern := range []string{"codex-*/vendor/*/bin/codex", "vendor/*/bin/codex", "vendor/*/codex/codex"} {
			if found, _ := filepath.Glob(filepath.Join(pkg, below, pattern)); len(found) == 1 {
				return found[0]
			}
		}
	}
	return path
}

// codexStream reads the output of exec --json.
type codexStream struct {
	schema  bool
	thread  codexThread
	message string // why the turn failed
}

type codexEvent struct {
	Type   string
	Thread string `json:"thread_id"`
	Item   struct {
		Type, Text, Command, Message, Tool, Query string
		Output                                    string `json:"aggregated_output"`
		Exit                                      *int   `json:"exit_code"`
	}
	Message string
	Error   struct{ Message string }
	Usage   *codexUsage
}

type codexUsage struct {
	Input  int64 `json:"input_tokens"` // includes the cached tokens
	Cached int64 `json:"cached_input_tokens"`
	Write  int64 `json:"cache_write_input_tokens"`
	Output int64 `json:"output_tokens"`
}

func (u codexUsage) minus(v codexUsage) trellis.Usage {
	in, cached := u.Input-v.Input, u.Cached-v.Cached
	return trellis.Usage{InputTokens: max(in-cached, 0), CachedTokens: max(cached, 0), OutputTokens: max(u.Output-v.Output, 0)}
}

func newCodexStream(home string, r Request) *codexStream {
	return &codexStream{schema: r.Schema != nil, thread: openCodexThread(home, r.Session)}
}

func (c *codexStream) line(line string, t *tally) bool {
	var e codexEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	if e.Type != "error" {
		t.waitReason = nil
	}
	if e.Type == "turn.completed" {
		t.markFinished("completed")
	}
	c.readRecord(t)
	switch e.Type {
	case "thread.started":
		c.thread.id = e.Thread
		t.session(e.Thread)
	case "item.started", "item.completed":
		c.recordItem(e, t)
	case "error":
		t.notice(e.Message)
		c.recordError(e.Message, t)
	case "turn.failed":
		c.message = e.Error.Message
		t.failure = c.failure()
		t.markFinished("failed")
	case "turn.completed":
		if e.Usage != nil {
			c.recordUsage(*e.Usage, t)
		}
	}
	return true
}

// readRecord reads new lines of the session record.
func (c *codexStream) readRecord(t *tally) {
	if c.thread.readRecord() {
		c.recordUsage(c.thread.usage, t)
	}
}

// recordUsage records the usage of the thread so far.
func (c *codexStream) recordUsage(now codexUsage, t *tally) {
	t.result.Model = cmp.Or(c.thread.model, t.result.Model)
	t.cacheWritten = max(now.Write-c.thread.usageBefore.Write, 0)
	t.usage(now.minus(c.thread.usageBefore))
}

func (c *codexStream) recordItem(e codexEvent, t *tally) {
	begins := e.Type == "item.started"
	switch i := e.Item; i.Type {
	case "agent_message":
		if !begins {
			t.text(i.Text)
		}
	case "error":
		t.notice(i.Message)
	case "command_execution":
		if begins {
			t.tool("shell", jsonString(i.Command))
		} else if i.Exit != nil {
			t.toolEnded(*i.Exit == 0, i.Output)
		}
	case "collab_tool_call", "mcp_tool_call", "web_search":
		if begins {
			t.tool(i.Type, jsonString(i.Tool+i.Query))
		}
	case "file_change", "patch":
		if !begins {
			t.tool(i.Type, nil)
		}
	}
}

// failure returns the failure of the turn: as the session record gives it, else as the message suggests, else agent_exit.
func (c *codexStream) failure() *flow.Failure {
	if f := c.thread.failure(c.message); f != nil {
		return f
	}
	if f := c.knownFailure(c.message); f != nil {
		return f
	}
	if isObject(c.message) { // the provider's JSON: a refusal that has no code here
		return refusedRequest(errorMessage([]byte(c.message)))
	}
	return fail(trellis.AgentExit, "%s", c.message)
}

// The messages with which codex reports connection errors and retries.
var (
	codexStatus       = trellis.Pattern(`^(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b`)
	codexReconnecting = trellis.Pattern(`(?s)^Reconnecting\.\.\. (\d+)/\d+ \((.*)\)$`)
	codexDown         = []string{"stream disconnected before completion", "Connection failed", "error sending request", "timeout waiting for"}

	// Follows "stream disconnected" if the answer arrived but was not an event stream: asking again changes nothing.
	codexNonsense = []string{"UTF8 error", "Parse error"}
)

// maxReconnects is how often in a row codex may reconnect, even if its configuration allows more: the caller does longer waits.
const maxReconnects = 2

// recordError records a connection error that codex reports, and ends a run that reconnects too often.
func (c *codexStream) recordError(message string, t *tally) {
	m := codexReconnecting().FindStringSubmatch(message)
	if m == nil {
		t.waitReason = c.knownFailure(message)
		return
	}
	if t.waitReason = c.knownFailure(m[2]); t.waitReason == nil {
		t.waitReason = fail(trellis.ProviderDown, "%s", m[2])
	}
	if n, _ := strconv.Atoi(m[1]); n > maxReconnects {
		t.watchdog.end(t.waitReason)
	}
}

// knownFailure returns the failure that a message means, or nil if the message is not a known one.
func (c *codexStream) knownFailure(message string) *flow.Failure {
	if strings.HasPrefix(message, "Missing environment variable") {
		return fail(trellis.AgentAuth, "%s", message)
	}
	if m := codexStatus().FindStringSubmatch(message); m != nil {
		status, _ := strconv.Atoi(m[1])
		return statusFailure(status, c.thread.resetTime(), message)
	}
	if slices.ContainsFunc(codexNonsense, func(part string) bool { return strings.Contains(message, ": "+part+":") }) {
		return fail(trellis.AgentProtocol, "%s", message)
	}
	if slices.ContainsFunc(codexDown, func(begins string) bool { return strings.HasPrefix(message, begins) }) {
		return fail(trellis.ProviderDown, "%s", message)
	}
	return nil
}

// correctUsage reads the last answers from the session record: the stream does not report the usage of a turn that was cut off.
func (c *codexStream) correctUsage(t *tally, _ bool) {
	c.readRecord(t)
}

func (c *codexStream) end(t *tally, e ending) *flow.Failure {
	if c.schema && json.Valid([]byte(t.result.Text)) {
		t.result.Answer = json.RawMessage(t.result.Text)
	}
	if t.result.ToolCalls <= 0 { // sometimes the stream leaves out all commands
		for _, name := range c.thread.calls {
			t.tool(name, nil) // without arguments: secrets in the record are not masked
		}
	}
	if t.failure != nil && c.message != "" {
		t.failure = c.failure() // the record is complete now
	}
	if strings.Contains(e.stderr, `"input_error_code":"input_too_large"`) {
		return fail(trellis.ContextOverflow, "%s", lastLines(e.stderr))
	}
	return nil
}
