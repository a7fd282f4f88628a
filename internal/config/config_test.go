package config_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const root = "/src/shop"

// load reads the text of a config.yaml and of a worktree.yaml.
func load(text, older string) (*config.Config, []trellis.Problem) {
	return config.Load(config.Files{Root: root,
		Config:   config.File{Name: "config.yaml", Data: []byte(text)},
		Worktree: config.File{Name: "worktree.yaml", Data: []byte(older)}})
}

// mistakes returns the problems that are not warnings, one per line.
func mistakes(problems []trellis.Problem) string {
	return said(slices.DeleteFunc(slices.Clone(problems), func(p trellis.Problem) bool { return p.Warning }))
}

func said(problems []trellis.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		if p.Warning {
			b.WriteString("warning: ")
		}
		b.WriteString(p.Error() + "\n")
	}
	return b.String()
}

// standard is what docs/reference/formats.md shows: every key with its default.
const standard = `
agents:     {default: "", roles: {}, commands: {}}
planning:   {taskspec: true, speculate: true, judge: true, approval: none, approvers: 1, approval_expires: 0, max_steps: 20}
worktree:   {dir: ../<repo>-worktrees, copy: [], setup: [], setup_timeout: 10m}
verify:     []
verify_timeout: 10m
baseline:   true
protected:  [".trellis/**"]
limits:     {parallel: 2, per_agent: {}, rounds: 5, attempts: 3, idle: 10m, evaluate: 10m, implement: 30m, check: 15m, debug: 20m, accept: 10m, tokens: 2000000, cost_usd: 20, seconds: 14400, day_tokens: 0, day_cost_usd: 0}
delivery:   {push: false, pr: false, draft: true, commit_type: feat, update: none, react: false, labels: [], reviewers: []}
depends_on_merged: false
sandbox:    off
packages:   {}
default_package: ""
hooks:      {after_create: [], after_start: [], after_finish: [], after_archive: []}
objectives: {watch: false}
notify:     []
`

// emptied sets empty slices and maps of c to nil, so that [] and an absent key compare equal.
func emptied(c *config.Config) *config.Config {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice, reflect.Map:
			if v.Len() == 0 {
				v.SetZero()
			}
		}
	}
	walk(reflect.ValueOf(c).Elem())
	return c
}

func TestDefaults(t *testing.T) {
	want, problems := load("", "")
	if len(problems) > 0 {
		t.Fatal(said(problems))
	}
	for _, text := range []string{standard, "# nothing but this\n", "---\n", "null\n", "{}", "limits:\nplanning: ~\nverify_timeout:\n"} {
		got, problems := load(text, "")
		if len(problems) > 0 {
			t.Errorf("%q: %s", text, said(problems))
		}
		if got := emptied(got); !reflect.DeepEqual(got, emptied(want)) {
			t.Errorf("%q\n got %+v\nwant %+v", text, got, want)
		}
	}
	if got, want := want.Worktree.Dir, "/src/shop-worktrees"; got != want {
		t.Errorf("worktrees: got %s, want %s", got, want)
	}
	if l := want.Limits; l.Parallel != 2 || l.Implement != 30*time.Minute || l.Tokens != 2_000_000 || want.Baseline != "true" {
		t.Errorf("limits %+v, baseline %v", l, want.Baseline)
	}
}

func TestLoad(t *testing.T) {
	got, problems := load(`
agents:
  default: claude
  roles: {judge: {agent: claude, model: haiku}, implement: {permission: full}, check: {permission: read}}
  commands:
    mine: {command: [./tools/agent.py, --fast], env: {KEY: v, N: 1, ON: true}, output: events}
    able: {command: [able], read: [--mode, plan], edit: [--yolo], session: [--resume, "{{session}}"], env_pass: [ABLE_API_KEY], output: events}
    path: {command: [python3, agent.py]}
  apis:
    haiku: {api: anthropic, model: claude-haiku-4-5, key_env: ANTHROPIC_API_KEY}
    local: {api: openai, base_url: "http://127.0.0.1:11434/v1", model: qwen3}
  prices: {qwen3: {input: 0, output: 0}, gpt-5.5: {input: 4, output: 20.5, cache_read: 0}}
planning: {approval: plan, approvers: 2, approval_expires: 48h}
worktree: {dir: /var/trees, copy: [.env, config/local.yaml], setup: ["npm ci"], setup_timeout: 90s}
verify: [&test go test ./..., *test]
protected:
limits: {per_agent: {claude: 1}, cost_usd: 2.5, idle: 0, tokens: 0}
sandbox: require
sandbox_write: [/run/docker.sock, ~/go]
sandbox_offline: [verify, accept]
packages: {cli: {path: packages/cli, type: submodule}, web: {path: ./web, type: ""}}
default_package: cli
notify:
  - {on: [failed, waiting], command: [bin/tell, now]}
  - on: [review]
    webhook: https://example.org/hook?x=1
`, "")
	if errs := mistakes(problems); errs != "" {
		t.Fatal(errs)
	}
	for _, tt := range []struct{ got, want any }{
		{got.Agents.Roles, map[trellis.Role]config.Choice{"judge": {Agent: "claude", Model: "haiku"}, "implement": {Permission: "full"}, "check": {Permission: "read"}}},
		{got.Agents.Commands["mine"], config.Command{Command: []string{"/src/shop/tools/agent.py", "--fast"}, Env: map[string]string{"KEY": "v", "N": "1", "ON": "true"}, Output: "events"}},
		{got.Agents.Commands["able"], config.Command{Command: []string{"able"}, Read: []string{"--mode", "plan"}, Edit: []string{"--yolo"}, Session: []string{"--resume", "{{session}}"},
			EnvPass: []string{"ABLE_API_KEY"}, Output: "events"}},
		{got.Agents.Commands["path"].Command, []string{"python3", "agent.py"}},
		{got.Agents.APIs, map[string]config.API{"haiku": {API: "anthropic", Model: "claude-haiku-4-5", KeyEnv: "ANTHROPIC_API_KEY"}, "local": {API: "openai", Model: "qwen3", BaseURL: "http://127.0.0.1:11434/v1"}}},
		{got.Agents.Prices, map[string]config.Price{"qwen3": {}, "gpt-5.5": {Input: 4, Output: 20.5, CacheWrite: 4}}},
		{got.Planning, config.Planning{TaskSpec: true, Speculate: true, Judge: true, Approval: "plan", Approvers: 2, ApprovalExpires: 48 * time.Hour, MaxSteps: 20}},
		{got.Worktree, config.Worktree{Dir: "/var/trees", Copy: []string{".env", "config/local.yaml"}, Setup: []string{"npm ci"}, SetupTimeout: 90 * time.Second}},
		{got.Verify, []string{"go test ./...", "go test ./..."}},
		{len(got.Protected), 0},
		{got.Limits.PerAgent, map[string]int{"claude": 1}},
		{got.Limits.CostUSD, 2.5},
		{got.Limits.Idle, time.Duration(0)},
		{got.Limits.Tokens, int64(0)},
		{got.Limits.Rounds, 5},
		{got.Sandbox, "require"},
		{got.SandboxWrite, []string{"/run/docker.sock", "~/go"}},
		{got.SandboxOffline, []string{"verify", "accept"}},
		{got.Packages, map[string]config.Package{"cli": {Path: "packages/cli", Type: "submodule"}, "web": {Path: "./web"}}},
		{got.Notify, []config.Notify{{On: []string{"failed", "waiting"}, Command: []string{"/src/shop/bin/tell", "now"}}, {On: []string{"review"}, Webhook: "https://example.org/hook?x=1"}}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("got %#v\nwant %#v", tt.got, tt.want)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"limts:\n  rounds: 3", "1: limts is unknown (did you mean limits?)"},
		{"limits:\n  paralel: 3", "2: limits.paralel is unknown (did you mean limits.parallel?)"},
		{"\nrounds: 3", "2: rounds is unknown here (did you mean limits.rounds?)"},
		{"objectives: {somewhere: 1}", "1: objectives.somewhere is unknown (known: watch)"},
		{"agents:\n  roles:\n    juge: {agent: x}", "3: agents.roles.juge is not a role (did you mean judge?)"},
		{"agents:\n  roles:\n    judge: {modle: x}", "3: agents.roles.judge.modle is unknown (did you mean agents.roles.judge.model?)"},
		{"agents:\n  roles:\n    judge:\n      permission: read", "4: agents.roles.judge.permission can be none or less, not read"},
		{"agents: {roles: {plan: {permission: full}}}", "1: agents.roles.plan.permission can be read or less, not full"},
		{"agents: {roles: {plan: {permission: all}}}", `1: agents.roles.plan.permission is one of none, read, edit, full, not "all"`},
		{"agents: {commands: {mine: {output: text}}}", "1: agents.commands.mine names no program: command: [program, argument, …]"},
		{"agents: {commands: {mine: {command: ./x}}}", `1: agents.commands.mine.command is a list, as in [a, b], not "./x"` + "\n1: agents.commands.mine names no program: command: [program, argument, …]"},
		{"agents:\n  commands:\n    mine:\n      command: [x]\n      env_pass: [GEMINI_API_KEY, sk-0123]", "5: agents.commands.mine.env_pass[2] is the name of an environment variable; its value does not belong in a file"},
		{"agents:\n  commands:\n    mine:\n      command: [x]\n      output: events\n      session: [--resume]", `6: agents.commands.mine.session does not say where the session's id goes: session: [--resume, "{{session}}"]`},
		{"agents:\n  commands:\n    mine:\n      command: [x]\n      session: ['--resume={{session}}']", "5: agents.commands.mine.session needs output: events, since only an event can name a session"},
		{"agents: {commands: {mine: {command: [x], env: {A=B: c}}}}", "1: agents.commands.mine.env.A=B can't be an environment variable"},
		{"agents: {apis: {a: {api: google, model: m}}}", `1: agents.apis.a.api is one of anthropic, openai, not "google"` + "\n1: agents.apis.a does not name its API: api: anthropic, or api: openai"},
		{"agents: {prices: {m.1: {input: 1}}}", "1: agents.prices.m.1 does not say what output costs, in USD for a million tokens: output: …"},
		{"agents: {prices: {m: {input: -1, output: 2}}}", "1: agents.prices.m.input is at least 0, not -1"},
		{"agents: {prices: {m: {input: $3, output: 2}}}", `1: agents.prices.m.input is a number, not "$3"`},
		{"agents: {prices: {m: {input: 1, output: 2, cached: 3}}}", "1: agents.prices.m.cached is unknown (known: input, output, cache_read, cache_write)"},
		{"agents: {apis: {a: {api: openai}}}", "1: agents.apis.a names no model: model: …"},
		{"agents: {apis: {codex: {api: openai, model: m}}}", "1: agents.apis.codex has the name of another agent: choose one of its own"},
		{"agents: {commands: {a: {command: [x]}}, apis: {a: {api: openai, model: m}}}", "1: agents.apis.a has the name of another agent: choose one of its own"},
		{"agents: {apis: {a: {api: openai, model: m, key: sk-0123}}}", "1: agents.apis.a.key is unknown (known: api, model, base_url, key_env)"},
		{"agents: {apis: {a: {api: openai, model: m, key_env: sk-0123_KEY}}}", "1: agents.apis.a.key_env is the name of an environment variable, ending in _KEY, _TOKEN or _SECRET; the key itself does not belong in a file"},
		{"agents: {apis: {a: {api: openai, model: m, key_env: HOME}}}", "1: agents.apis.a.key_env is the name of an environment variable, ending in _KEY, _TOKEN or _SECRET; the key itself does not belong in a file"},
		{"agents: {apis: {a: {api: openai, model: m, base_url: localhost}}}", "1: agents.apis.a.base_url is not an http or https address"},
		{"agents: {apis: {a: {api: openai, model: m, base_url: 'https://me:pw@host/v1'}}}", "1: agents.apis.a.base_url is an address without name, password, ? and #; a key comes from key_env"},
		{"agents: {apis: {a: {api: openai, model: m, base_url: 'https://host/v1?key=x'}}}", "1: agents.apis.a.base_url is an address without name, password, ? and #; a key comes from key_env"},
		{"agents: {apis: {a: {api: openai, model: m, base_url: 'https://host/v1?'}}}", "1: agents.apis.a.base_url is an address without name, password, ? and #; a key comes from key_env"},
		{"agents: {apis: {a: {api: openai, model: m, base_url: 'https://host/v1#'}}}", "1: agents.apis.a.base_url is an address without name, password, ? and #; a key comes from key_env"},
		{"agents:\n  apis: {a: {api: openai, model: m}}\n  roles:\n    judge: {agent: a}\n    heal: {agent: a}", "5: agents.roles.heal.agent: a is a model without a program, which can answer and read; heal works on files"},
		{"agents:\n  apis: {a: {api: openai, model: m}}\n  roles: {check: {agent: a, permission: read}, heal: {agent: claude}}\n  default: a",
			"4: agents.default: a is a model without a program, which can answer and read; name another agent for implement, debug under agents.roles"},
		{"limits:\n  rounds: many", `2: limits.rounds is a whole number, not "many"`},
		{"limits:\n  rounds: 2.5", `2: limits.rounds is a whole number, not "2.5"`},
		{"limits: {rounds: 0}", "1: limits.rounds is at least 1, not 0"},
		{"limits: {per_agent: {claude: 0}}", "1: limits.per_agent.claude is at least 1, not 0"},
		{"agents:\n  default: cluade", "2: agents.default is not an agent: \"cluade\" (did you mean claude?)"},
		{"agents:\n  default: mine\n  commands: {mine: {command: [x], output: events}}\n  roles: {judge: {agent: mne}}", "4: agents.roles.judge.agent is not an agent: \"mne\" (did you mean mine?)"},
		{"limits: {per_agent: {cluade: 1}}", "1: limits.per_agent.cluade is not an agent (did you mean claude?)"},
		{"limits: {tokens: -1}", "1: limits.tokens is at least 0, not -1"},
		{"limits: {cost_usd: .nan}", "1: limits.cost_usd is at least 0, not NaN"},
		{"limits: {cost_usd: .inf}", "1: limits.cost_usd is at least 0, not +Inf"},
		{"limits: {idle: 10}", `1: limits.idle is a duration with a unit, such as 90s, 10m or 2h, not "10"`},
		{"limits: {idle: -1m}", `1: limits.idle is a duration with a unit, such as 90s, 10m or 2h, not "-1m"`},
		{"limits: [a]", "1: limits is keys and values, not a list"},
		{"limits: {idle: [10m]}", "1: limits.idle is a duration, not a list"},
		{"- a", "1: the file is keys and values, not a list"},
		{"baseline: maybe", `1: baseline is one of true, false, parallel, not "maybe"`},
		{"verify: go test", `1: verify is a list, as in [a, b], not "go test"`},
		{"verify:\n  - go vet\n  - echo ok: done", "3: verify[2] is text, not keys and values (text with a colon and a space in it needs quotes)"},
		{"verify:\n  - go vet\n  -\n  - ' '", "3: verify[2] is empty\n4: verify[3] is empty"},
		{"verify: [~]", "1: verify[1] is empty"},
		{"hooks:\n  after_start: ['']", "2: hooks.after_start[1] is empty"},
		{"sandbox: on", `1: sandbox is one of off, auto, require, not "on"`},
		{"sandbox: ''", `1: sandbox is one of off, auto, require, not ""`},
		{"sandbox_write: [cache]", `1: sandbox_write[1] is a path that begins with / or ~/ and is below it, not "cache"`},
		{"sandbox_write: [~/x, ~/, /]", `1: sandbox_write[2] is a path that begins with / or ~/ and is below it, not "~/"` + "\n" + `1: sandbox_write[3] is a path that begins with / or ~/ and is below it, not "/"`},
		{"sandbox_home: [../x]", "1: sandbox_home[1] is a path that begins with / or ~/ and is below it, not \"../x\""},
		{"sandbox_network: [verfy]", "1: sandbox_network[1] is neither verify, steps or setup nor a role (did you mean verify?)"},
		{"sandbox_hosts: [https://api.example.org, '*.example.org', '*']", "1: sandbox_hosts[1]: a host is written as api.example.org, *.example.org or 127.0.0.1:8080, not \"https://api.example.org\"\n" +
			"1: sandbox_hosts[3]: a host is written as api.example.org, *.example.org or 127.0.0.1:8080, not \"*\""},
		{"sandbox_network: [verify]\nsandbox_offline: [verify]", "1: sandbox_network[1] says that verify has the network, and sandbox_offline that it has none"},
		{"sandbox_env: [AWS_*]", "1: sandbox_env[1] is the name of an environment variable, in full; its value does not belong in a file"},
		{"sandbox_offline: [verfy]", "1: sandbox_offline[1] is neither verify, steps or setup nor a role (did you mean verify?)"},
		{"delivery:\n  push: origin", `2: delivery.push is true or false, not "origin"`},
		{"planning: {approval: always}", `1: planning.approval is one of none, plan, not "always"`},
		{"planning: {approvers: 0}", "1: planning.approvers is at least 1, not 0"},
		{"worktree: {dir: ~/trees}", "1: worktree.dir begins with ~, which only a shell understands: write it from / or from the main checkout"},
		{"worktree: {dir: ''}", "1: worktree.dir is empty"},
		{"worktree:\n  dir: .", "2: worktree.dir is the main checkout itself: name a folder next to it, such as ../<repo>-worktrees"},
		{"worktree: {dir: " + root + "/x/..}", "1: worktree.dir is the main checkout itself: name a folder next to it, such as ../<repo>-worktrees"},
		{"worktree: {dir: ../<repo>}", "1: worktree.dir is the main checkout itself: name a folder next to it, such as ../<repo>-worktrees"},
		{"worktree: {dir: .git}", "1: worktree.dir is in git's own folder: name a folder next to the main checkout, such as ../<repo>-worktrees"},
		{"worktree: {dir: ./.git/x}", "1: worktree.dir is in git's own folder: name a folder next to the main checkout, such as ../<repo>-worktrees"},
		{"worktree: {dir: " + root + "/.git/x}", "1: worktree.dir is in git's own folder: name a folder next to the main checkout, such as ../<repo>-worktrees"},
		{"worktree:\n  copy:\n  - .env\n  - ../x", "4: worktree.copy[2] leads out of the repository: ../x"},
		{"worktree: {copy: [/etc/passwd]}", "1: worktree.copy[1] leads out of the repository: /etc/passwd"},
		{"protected:\n- api/**\n- a/../b", `3: protected[2] has .. in it, which no path has: "a/../b"`},
		{"protected: ['a[']", `1: protected[1] is not a glob: "a["`},
		{"shared: {time_zone: Berlin}", `1: shared.time_zone is not a time zone: "Berlin"; it is a name such as Europe/Berlin or UTC`},
		{"delivery: {commit_type: 'feat(x)'}", `1: delivery.commit_type is one word, such as feat or fix, not "feat(x)"`},
		{"packages: {cli: {path: ../cli}}", "1: packages.cli.path leads out of the repository: ../cli"},
		{"packages:\n  cli:", "2: packages.cli has no path"},
		{"packages: {cli: {path: cli, type: module}}", `1: packages.cli.type is one of submodule, not "module"`},
		{"packages: {cli: {path: cli}}\ndefault_package: cil", "2: default_package is not one of packages (did you mean cli?)"},
		{"notify: [{on: [faild], command: [x]}]", "1: notify[1].on[1] is not a status (did you mean failed?)"},
		{"notify: [{on: [mergable], command: [x]}]", "1: notify[1].on[1] is not a status (did you mean mergeable?)"},
		{"notify: [{command: [x]}]", "1: notify[1] names no status to report: on: [failed, waiting]"},
		{"notify: [{on: [failed]}]", "1: notify[1] has either a command or a webhook, or a kind: desktop, slack, discord, ntfy or email"},
		{"notify: [{kind: slac}]", "1: notify[1].kind is one of command, webhook, desktop, slack, discord, ntfy, email, not \"slac\""},
		{"notify: [{kind: slack}]", "1: notify[1] of kind slack needs url_env: the name of the environment variable that holds the URL"},
		{"notify: [{kind: slack, url_env: 'https://hooks.example.org/T/B/x'}]", "1: notify[1].url_env is the name of an environment variable; its value does not belong in a file"},
		{"notify: [{kind: desktop, to: [a@b.example]}]", "1: notify[1].to is not a field of kind desktop"},
		{"notify: [{kind: desktop, on: [need_you]}]", "1: notify[1].on[1] is not one of needs_you, failed, delivered, budget, watcher (did you mean needs_you?)"},
		{"notify: [{kind: ntfy}]", "1: notify[1] of kind ntfy needs either url or url_env"},
		{"notify: [{kind: email, server: mail.example.org, from: a@b.example, to: [a@b.example]}]", "1: notify[1].server is not a host:port"},
		{"notify: [{kind: email, server: 'mail.example.org:587', user: ann, from: a@b.example, to: [a@b.example]}]", "1: notify[1] of kind email needs both user and password_env, or neither"},
		{"notify: [{kind: email, server: 'mail.example.org:587', from: a@b.example, to: [ann]}]", "1: notify[1].to[1] is not a mail address"},
		{"notify: [{on: [failed], webhook: 'file:///x'}]", "1: notify[1].webhook is not an http or https address"},
		{"notify: [{on: [failed], webhook: 'ftp://example.org/x'}]", "1: notify[1].webhook is not an http or https address"},
		{"verify: []\nbaseline: true\nverify: [x]", "3: verify is set twice, first in line 1"},
		{"? [a]\n: b", "1: a key that is not text"},
		{"baseline: true\n---\nbaseline: false", "2: more than one YAML document"},
	} {
		c, problems := load(tt.text, "")
		got := strings.TrimSuffix(strings.ReplaceAll(mistakes(problems), "config.yaml:", ""), "\n")
		if got != tt.want {
			t.Errorf("%q\n got %s\nwant %s", tt.text, got, tt.want)
		}
		if c.Limits.Rounds != 5 || c.Limits.Idle != 10*time.Minute || c.Sandbox != "off" || c.Delivery.Push || c.Delivery.PR || c.Planning.Approvers != 1 {
			t.Errorf("%q: a wrong value did not leave the default: %+v", tt.text, c)
		}
	}
}

func TestNotYAML(t *testing.T) {
	for _, tt := range []struct {
		text string
		line int
	}{
		{"a: [1,2\nb: 3\n", 1},
		{"x: 1\na: [1,2\nb: 3\n", 2},
		{"x: 1\n\tb: 2\n", 2},
		{"a: 1\nb 2\nc: 3\n", 2},
		{"a:\n  b: 1\n c: 2\n", 3},
		{"a: 1\nb: *x\n", 2},
		{"a: 1\nb: \"x\nc: 1\n", 2},
		{"a: b: c\n", 1},
		{"x: 1\n- b\n", 2},
		{"\x00", 1},
		{"a: 1\nb: \xff\n", 2},
		{"a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n", 2},
		{"<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n", 1},
	} {
		c, problems := load(tt.text, "")
		if len(problems) != 1 || problems[0].Line != tt.line || problems[0].Warning || !strings.HasPrefix(problems[0].Message, "not YAML: ") {
			t.Errorf("%q: got %s, want line %d", tt.text, said(problems), tt.line)
		}
		if conflict := strings.Contains(tt.text, "<<<<<<<"); conflict != strings.HasSuffix(problems[0].Message, "git left a merge conflict here") {
			t.Errorf("%q: got %s", tt.text, said(problems))
		}
		if c.Limits.Rounds != 5 {
			t.Errorf("%q: no defaults", tt.text)
		}
	}
}

// Known keys are accepted without a warning that nothing reads them.
func TestKeysHaveAnEffect(t *testing.T) {
	_, problems := load(`
planning:
  taskspec: false
  speculate: false
  judge: false
  approvers: 2
  max_steps: 3
limits:
  per_agent: {claude: 1}
  day_tokens: 1
  day_cost_usd: 0.5
  parallel: 3
delivery:
  push: false
  draft: false
  commit_type: fix
  update: merge
  react: true
  labels: [a]
  reviewers: [b]
sandbox: auto
packages: {cli: {path: cli}}
default_package: cli
hooks:
  after_create: [x]
  after_start: [x]
  after_finish: [x]
  after_archive: [x]
objectives: {watch: true}
notify:
  - {on: [failed], command: [x]}
`, "")
	if len(problems) > 0 {
		t.Errorf("got\n%s", said(problems))
	}
	if _, problems := load(standard, ""); len(problems) > 0 {
		t.Errorf("the defaults: %s", said(problems))
	}
}

func TestKeysOfAnotherTrellis(t *testing.T) {
	_, problems := load("verify: []\nsession_commit_message: x\nmax_journal_lines: 2000\nchannel: {worker_guard: {idle_timeout: 5m}}\n"+
		"update: {skip: []}\ncodex:\ncontext_injection: {}\nprompt_injection: {}\npackages: {web: {path: web, git: true}}\n", "")
	want := "warning: config.yaml:2: keys of another Trellis, ignored: session_commit_message, max_journal_lines, channel, update, codex, context_injection, prompt_injection, packages.web.git\n"
	if got := said(problems); got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// Edge A15: a command that prints text reports no tokens. If there are limits of tokens or cost, a warning says that they do not apply.
func TestCommandThatNoLimitBinds(t *testing.T) {
	const agent = "agents:\n  commands:\n    mine: {command: [x]%s}\nlimits: {tokens: %d, cost_usd: 0}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(agent, "", 5):                 "warning: config.yaml:3: agents.commands.mine prints text and reports no tokens: limits of tokens and cost do not apply to it, only those of time do",
		fmt.Sprintf(agent, "", 0):                 "",
		fmt.Sprintf(agent, ", output: events", 5): "",
	} {
		if _, problems := load(text, ""); strings.TrimSpace(said(problems)) != want {
			t.Errorf("%s\ngot %q, want %q", text, said(problems), want)
		}
	}
}

func TestWorktreeOfTrellis04(t *testing.T) {
	const older = "worktree_dir: ../trees\ncopy:\n  - .env\npost_create: [npm ci]\nverify:\n  - npm test\n"
	c, problems := load("", older)
	if len(problems) > 0 {
		t.Fatal(said(problems))
	}
	want := config.Worktree{Dir: "/src/trees", Copy: []string{".env"}, Setup: []string{"npm ci"}, SetupTimeout: 10 * time.Minute}
	if !reflect.DeepEqual(c.Worktree, want) || !reflect.DeepEqual(c.Verify, []string{"npm test"}) {
		t.Errorf("got %+v, verify %v\nwant %+v", c.Worktree, c.Verify, want)
	}
	c, problems = load("worktree: {dir: ../mine, copy: [], setup: [make deps]}\nverify: [make test]\n", older)
	want = config.Worktree{Dir: "/src/mine", Copy: []string{}, Setup: []string{"make deps"}, SetupTimeout: 10 * time.Minute}
	if len(problems) > 0 || !reflect.DeepEqual(c.Worktree, want) || !reflect.DeepEqual(c.Verify, []string{"make test"}) {
		t.Errorf("config.yaml says otherwise: got %+v, verify %v, %s", c.Worktree, c.Verify, said(problems))
	}
	c, _ = load("verify:\nworktree:\n  dir:\n", older)
	if got := c.Verify; len(got) != 1 || c.Worktree.Dir != "/src/trees" {
		t.Errorf("config.yaml says nothing: got %v, %s", got, c.Worktree.Dir)
	}
	_, problems = load("", "worktree_dir: ~/x\ncopy:\n  # - .env\n  - /etc/x\npost_create:\npre_merge: [x]\nverify: a\n")
	wantSaid := `worktree.yaml:1: worktree.dir begins with ~, which only a shell understands: write it from / or from the main checkout
worktree.yaml:4: worktree.copy[1] leads out of the repository: /etc/x
warning: worktree.yaml:6: keys of another Trellis, ignored: pre_merge
worktree.yaml:7: verify is a list, as in [a, b], not "a"
`
	if got := said(problems); got != wantSaid {
		t.Errorf("got\n%swant\n%s", got, wantSaid)
	}
}

func TestAgentFor(t *testing.T) {
	const text = "agents: {default: d, roles: {judge: {agent: r, model: m}, check: {model: big}}, commands: {d: {command: [d], output: events}, r: {command: [r], output: events}}}"
	for _, tt := range []struct {
		role                                   trellis.Role
		task, flag, fileAgent, fileModel, want string
	}{
		{"plan", "", "", "", "", "d "},
		{"plan", "t", "", "", "", "t "},
		{"plan", "t", "", "f", "x", "f x"},
		{"plan", "t", "g", "f", "x", "g "},
		{"plan", "t", "", "", "x", "t x"},
		{"judge", "t", "", "f", "x", "r m"},
		{"judge", "t", "g", "f", "x", "g "},
		{"judge", "t", "r", "f", "x", "r m"},
		{"judge", "t", "f", "f", "x", "f x"},
		{"check", "t", "", "f", "x", "f big"},
		{"check", "", "g", "", "", "g big"},
	} {
		c, problems := load(text, "")
		if len(problems) > 0 {
			t.Fatal(said(problems))
		}
		agent, model := c.AgentFor(tt.role, tt.task, tt.flag, tt.fileAgent, tt.fileModel)
		if got := agent + " " + model; got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
	c, _ := load("", "")
	if agent, model := c.AgentFor("plan", "", "", "", ""); agent != "" || model != "" {
		t.Errorf("nothing said: got %q %q", agent, model)
	}
}

func TestPermissionFor(t *testing.T) {
	c, problems := load("agents: {roles: {implement: {permission: full}, check: {permission: read}}}", "")
	if len(problems) > 0 {
		t.Fatal(said(problems))
	}
	for _, tt := range []struct {
		role       trellis.Role
		file, want trellis.Permission
	}{
		{"implement", "", "full"}, {"implement", "edit", "edit"}, {"implement", "none", "none"},
		{"check", "", "read"}, {"check", "edit", "read"}, {"check", "none", "none"},
		{"debug", "", "edit"}, {"debug", "full", "edit"}, {"judge", "edit", "none"},
	} {
		if got := c.PermissionFor(tt.role, tt.file); got != tt.want {
			t.Errorf("%s with %q: got %s, want %s", tt.role, tt.file, got, tt.want)
		}
	}
}

// Every key is in the table once, with a meaning, and loading the default that the table names changes nothing.
func TestTable(t *testing.T) {
	var text strings.Builder
	seen := map[string]bool{}
	for _, r := range config.Table() {
		if r.Meaning == "" || r.Type == "" || r.Default == "" || seen[r.Key] {
			t.Errorf("row %+v", r)
		}
		seen[r.Key] = true
		if strings.ContainsAny(r.Key, "<[") {
			continue
		}
		r.Default += strings.Repeat("}", strings.Count(r.Key, "."))
		r.Key = strings.ReplaceAll(r.Key, ".", ": {")
		c, problems := load(r.Key+": "+r.Default, "")
		want, _ := load("", "")
		if len(problems) > 0 || !reflect.DeepEqual(emptied(c), emptied(want)) {
			t.Errorf("%s: %s is not a default: %s", r.Key, r.Default, said(problems))
		}
		text.WriteString(r.Key + "\n")
	}
	for _, key := range []string{"agents.roles.<role>.model", "agents.commands.<name>.command", "agents.apis.<name>.key_env", "limits.per_agent", "packages.<name>.path", "notify[].webhook", "worktree.setup_timeout", "verify"} {
		if !seen[key] {
			t.Errorf("no row for %s", key)
		}
	}
	if want := (config.Row{Key: "limits.implement", Type: "a duration", Default: "30m", Meaning: "how long the implement phase may take; 0: no limit"}); !has(want) {
		t.Errorf("no row %+v", want)
	}
	for _, want := range []config.Row{
		{Key: "worktree.dir", Type: "text", Default: `"../<repo>-worktrees"`, Meaning: "the folder of all worktrees, relative to the main checkout; <repo> is the main checkout's name"},
		{Key: "delivery.push", Type: "true or false", Default: "false", Meaning: "push the branch"},
		{Key: "packages.<name>.path", Type: "text", Default: `""`, Meaning: "its folder, relative to the top of the repository"},
	} {
		if !has(want) {
			t.Errorf("no row %+v", want)
		}
	}
}

func has(want config.Row) bool {
	for _, r := range config.Table() {
		if r == want {
			return true
		}
	}
	return false
}

func TestOwnConfig(t *testing.T) {
	data, err := os.ReadFile("../../.trellis/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, problems := load(string(data), "")
	if len(problems) > 0 || len(c.Verify) == 0 {
		t.Errorf("verify %v, %s", c.Verify, said(problems))
	}
}

// Whatever the files contain, Load returns a Config, and no value in it is out of bounds.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(standard), []byte("worktree_dir: x\n"))
	f.Add([]byte("a: &a [*a]\nverify: *a\n"), []byte("copy: [../x]"))
	f.Add([]byte("agents: &a {roles: *a, commands: *a}\n"), []byte("- x"))
	f.Add([]byte("limits: {rounds: 1e3, tokens: 0x10, cost_usd: 1_0.5}\n<<: {verify: [x]}"), []byte("\x00"))
	f.Add([]byte("notify:\n-\n- ~\n- {}\npackages: {'': {}, a.b: ~, ? b : c}"), []byte("verify: [~]"))
	f.Fuzz(func(t *testing.T, text, older []byte) {
		c, problems := load(string(text), string(older))
		for _, p := range problems {
			if p.Line < 1 || p.Message == "" || p.File == "" {
				t.Errorf("problem %+v", p)
			}
		}
		if c == nil || c.Limits.Rounds < 1 || c.Limits.Idle < 0 || !(c.Limits.CostUSD >= 0) || c.Planning.Approvers < 1 {
			t.Errorf("got %+v", c)
		}
	})
}
