// Package config reads a project's settings: .trellis/config.yaml, and the worktree.yaml of Trellis 0.4 where
// config.yaml does not say otherwise. It decodes bytes, and reads no environment and no files except time zones.
package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for machines and images without time zone data

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Config has every setting. The tags of a field say all there is to know of its key: `oneof` and
// `min` bound its value (a number is never below 0), `key` names what a map is keyed by, and `doc`
// is its meaning in the table of the docs.
type Config struct {
	Agents          Agents             `yaml:"agents"`
	Planning        Planning           `yaml:"planning"`
	Worktree        Worktree           `yaml:"worktree"`
	Verify          []string           `yaml:"verify" doc:"commands that decide whether a task is done: run in this order, all must exit with 0"`
	VerifyTimeout   time.Duration      `yaml:"verify_timeout" doc:"how long one verify command may take; 0: no limit"`
	VerifyAll       bool               `yaml:"verify_all" doc:"run all verify commands even if one failed; false: after a failure only those that took less than 10 s at base"`
	VerifyParallel  int                `yaml:"verify_parallel" min:"1" doc:"how many verify commands run at once; more than 1 only if none needs the output of another"`
	Baseline        string             `yaml:"baseline" oneof:"true false parallel" doc:"run the verify commands once at base, to know what was already broken; true: before any agent works, or alongside the first one if they passed at another base within a day and took longer than 10 s; parallel: alongside it whenever they must run; false: not at all"`
	VerifyFresh     bool               `yaml:"verify_fresh" doc:"run verify in a fresh checkout of what will be committed, with copy and setup; false: in the worktree, which still has ignored files"`
	Protected       []string           `yaml:"protected" doc:"globs of paths that a task may not change without a person's approval; except .trellis/spec, .trellis/tasks, .trellis/.runtime and .trellis/.current-task"`
	Limits          Limits             `yaml:"limits"`
	Delivery        Delivery           `yaml:"delivery"`
	Trackers        Trackers           `yaml:"trackers"`
	DependsOnMerged bool               `yaml:"depends_on_merged" doc:"a dependency is met only once it is merged (completed), not yet in review"`
	Sandbox         string             `yaml:"sandbox" oneof:"off auto require" doc:"run agents and the project's commands in a sandbox of the operating system: off, auto (if available), require"`
	SandboxWrite    []string           `yaml:"sandbox_write" doc:"more paths that are writable in the sandbox, absolute or below ~/; sockets too"`
	SandboxHome     []string           `yaml:"sandbox_home" doc:"more paths of the home folder and other hidden places that are readable in the sandbox, absolute or below ~/; tools and settings without credentials are always available"`
	SandboxNetwork  []string           `yaml:"sandbox_network" doc:"who has the whole network in the sandbox: verify (the deciding commands), steps (commands of plans), and roles, if agents otherwise reach only sandbox_hosts; setup has it unless sandbox_offline names it"`
	SandboxOffline  []string           `yaml:"sandbox_offline" doc:"who else has no network in the sandbox: setup (worktree.setup), and roles"`
	SandboxHosts    []string           `yaml:"sandbox_hosts" unset:"with sandbox: auto agents have the whole network" doc:"hosts that agents can reach in the sandbox besides their models, such as api.example.org, *.example.org or 127.0.0.1:8080; applies with sandbox: auto only if set, even to [], with require always"`
	SandboxEnv      []string           `yaml:"sandbox_env" doc:"names of environment variables that commands and agents get in the sandbox besides the usual ones; with sandbox: off, which credentials of agents commands get"`
	Packages        map[string]Package `yaml:"packages" key:"name"`
	DefaultPackage  string             `yaml:"default_package" doc:"the package of tasks that name none"`
	Hooks           Hooks              `yaml:"hooks"`
	Runs            Runs               `yaml:"runs"`
	Objectives      Objectives         `yaml:"objectives"`
	Shared          Shared             `yaml:"shared"`
	Cluster         Cluster            `yaml:"cluster"`
	Notify          []Notify           `yaml:"notify"`
}

// Agents says which agents play the roles.
type Agents struct {
	Default  string                  `yaml:"default" doc:"the agent of every role without its own setting; empty: the first of claude, codex and opencode that is signed in"`
	Roles    map[trellis.Role]Choice `yaml:"roles" key:"role"`
	Commands map[string]Command      `yaml:"commands" key:"name"`
	APIs     map[string]API          `yaml:"apis" key:"name"`
	Prices   map[string]Price        `yaml:"prices" key:"model"`
}

// Choice says which agent plays one role.
type Choice struct {
	Agent      string             `yaml:"agent" doc:"claude, codex, opencode, or one of agents.commands or agents.apis"`
	Model      string             `yaml:"model" doc:"the model, as the agent spells it"`
	Permission trellis.Permission `yaml:"permission" oneof:"none read edit full" doc:"a lower permission than the role has, or full (without the agent's own sandbox) for a role that edits"`
}

// Command is a program of the project's own that plays roles.
type Command struct {
	Command []string          `yaml:"command" doc:"the program and its arguments; a relative path starts at the main checkout"`
	Read    []string          `yaml:"read" doc:"additional arguments for roles with permission none or read"`
	Edit    []string          `yaml:"edit" doc:"additional arguments for roles with permission edit or full"`
	Session []string          `yaml:"session" doc:"the last arguments to resume a session, with {{session}} replaced by its name; empty: no sessions"`
	Env     map[string]string `yaml:"env" key:"variable" doc:"environment variables that the program gets besides the usual ones"`
	EnvPass []string          `yaml:"env_pass" doc:"names of environment variables passed to the program besides the usual ones, such as that of its key"`
	Output  string            `yaml:"output" oneof:"text events" doc:"what it prints: text (its answer), or events (one JSON event per line)"`
	Type    string            `yaml:"type" oneof:"acp" doc:"acp: it speaks the Agent Client Protocol, as gemini --acp does; empty: it reads the prompt from its standard input"`
}

// API is a model that is called directly, without a program. It can play roles that answer or read.
type API struct {
	API     string `yaml:"api" oneof:"anthropic openai" doc:"the protocol: Anthropic's Messages, or OpenAI's chat completions, which many servers support"`
	Model   string `yaml:"model" doc:"the model, as the server spells it"`
	BaseURL string `yaml:"base_url" doc:"the server, with /v1 for openai; empty: the provider's own"`
	KeyEnv  string `yaml:"key_env" doc:"the environment variable that holds the key; empty: ANTHROPIC_API_KEY or OPENAI_API_KEY, and no key with a base_url"`
}

// Price is what a model costs, in USD for a million tokens. The cost of agents that report none is estimated by it.
type Price struct {
	Input      float64 `yaml:"input" doc:"USD per million tokens of input"`
	Output     float64 `yaml:"output" doc:"USD per million tokens of output"`
	CacheRead  float64 `yaml:"cache_read" unset:"that of input" doc:"USD per million tokens of input read from the provider's cache; unset: as input"`
	CacheWrite float64 `yaml:"cache_write" unset:"that of input" doc:"USD per million tokens of input written to it; unset: as input"`
}

// Planning is how a requirement becomes a task.
type Planning struct {
	TaskSpec        bool          `yaml:"taskspec" doc:"write down the intent before the plan"`
	Speculate       bool          `yaml:"speculate" doc:"start research and TaskSpec while a requirement of 120 bytes or more is evaluated, and cancel both if it is rejected; false: only once it is accepted"`
	Judge           bool          `yaml:"judge" doc:"have a second agent judge each plan"`
	Approval        string        `yaml:"approval" oneof:"none plan" doc:"none, or plan: every plan waits for a person"`
	Approvers       int           `yaml:"approvers" min:"1" doc:"how many different people must approve"`
	ApprovalExpires time.Duration `yaml:"approval_expires" doc:"how long an approval is valid; 0: forever"`
	MaxSteps        int           `yaml:"max_steps" min:"1" doc:"the maximum number of steps in a plan"`
}

// Worktree is where and how a task's worktree is made.
type Worktree struct {
	Dir          string        `yaml:"dir" doc:"the folder of all worktrees, relative to the main checkout; <repo> is the main checkout's name"`
	Copy         []string      `yaml:"copy" doc:"files and folders of the main checkout that git does not track and a worktree needs"`
	Setup        []string      `yaml:"setup" doc:"commands that make a fresh worktree usable; the files they leave must be ignored by git"`
	Warm         []string      `yaml:"warm" doc:"folders that setup fills from lock files alone, such as node_modules: kept as setup made them at base, and copied into checkouts with the same lock files, where setup is skipped if it makes nothing else; not for setup with effects outside the worktree, nor for folders that contain their own path, such as .venv, or whose files must keep their times, such as target"`
	SetupTimeout time.Duration `yaml:"setup_timeout" doc:"how long one setup command may take; 0: no limit"`
}

// Runs says how much `trellis cleanup --runs` leaves of the runs of completed and archived tasks.
type Runs struct {
	Keep time.Duration `yaml:"keep" doc:"how long cleanup --runs keeps records of the prompts and actions of agents for completed and archived tasks; 0: forever"`
	Size int           `yaml:"size" doc:"how many megabytes of these cleanup --runs keeps, the newest first; 0: no limit"`
}

// Limits bounds what tasks and agents may use. Zero means no limit where it is allowed.
type Limits struct {
	Parallel   int            `yaml:"parallel" min:"1" doc:"how many tasks run at once"`
	PerAgent   map[string]int `yaml:"per_agent" key:"agent" min:"1" doc:"how many tasks run at once with this agent in any role"`
	Rounds     int            `yaml:"rounds" min:"1" doc:"check rounds per run"`
	Attempts   int            `yaml:"attempts" min:"1" doc:"attempts at what failed for a temporary reason, over a task's life"`
	Idle       time.Duration  `yaml:"idle" doc:"how long an agent may be silent; 0: no limit"`
	Evaluate   time.Duration  `yaml:"evaluate" doc:"how long each planning call and each grade may take; 0: no limit"`
	Implement  time.Duration  `yaml:"implement" doc:"how long the implement phase may take; 0: no limit"`
	Check      time.Duration  `yaml:"check" doc:"how long a check may take; 0: no limit"`
	Debug      time.Duration  `yaml:"debug" doc:"how long a debug or heal may take; 0: no limit"`
	Accept     time.Duration  `yaml:"accept" doc:"how long the acceptance may take; 0: no limit"`
	Tokens     int64          `yaml:"tokens" doc:"tokens per task; 0: no limit"`
	CostUSD    float64        `yaml:"cost_usd" doc:"cost per task; 0: no limit"`
	Seconds    int64          `yaml:"seconds" doc:"agents' time per task; 0: no limit"`
	DayTokens  int64          `yaml:"day_tokens" doc:"tokens of all agents per day, on all machines that share the tasks, in local time unless shared.time_zone is set; 0: no limit"`
	DayCostUSD float64        `yaml:"day_cost_usd" doc:"cost of all agents per day, on all machines that share the tasks, in local time unless shared.time_zone is set; 0: no limit"`
}

// Delivery says what is done with the commit.
type Delivery struct {
	Push       bool     `yaml:"push" doc:"push the branch"`
	PR         bool     `yaml:"pr" doc:"open a pull request with gh, or a merge request on GitLab; pushes the branch too"`
	Draft      bool     `yaml:"draft" doc:"open it as a draft"`
	CommitType string   `yaml:"commit_type" doc:"the type in the commit's subject, as in feat(scope): title"`
	Update     string   `yaml:"update" oneof:"none merge rebase" doc:"update the branch before delivery if its base has moved: none, merge, or rebase"`
	React      bool     `yaml:"react" doc:"work on review comments and failed CI of pull requests"`
	Labels     []string `yaml:"labels" doc:"labels of the pull request"`
	Reviewers  []string `yaml:"reviewers" doc:"requested reviewers of the pull request: people, or teams as ORG/TEAM"`
}

// EveryPlan is the reason why a plan waits by Planning.Approval.
const EveryPlan = "planning.approval wants a person's approval of every plan"

// Package is one part of a repository that holds several.
type Package struct {
	Path string `yaml:"path" doc:"its folder, relative to the top of the repository"`
	Type string `yaml:"type" oneof:"submodule" doc:"submodule, or empty for a plain folder"`
}

// Hooks are commands that run when something has happened to a task. A hook that fails stops nothing.
type Hooks struct {
	AfterCreate  []string `yaml:"after_create" doc:"commands to run after a task is created"`
	AfterStart   []string `yaml:"after_start" doc:"commands to run after a task is started"`
	AfterFinish  []string `yaml:"after_finish" doc:"commands to run after a task has ended"`
	AfterArchive []string `yaml:"after_archive" doc:"commands to run after a task is archived"`
}

// Objectives says how roadmaps are worked on.
type Objectives struct {
	Watch bool `yaml:"watch" doc:"the watcher records results of tasks in objectives, and plans the steps of those with auto_advance"`
}

// Shared says how several machines share the tasks of the repository.
type Shared struct {
	Remote      string        `yaml:"remote" doc:"the git remote whose checkouts share their tasks, each held by one machine at a time; empty: the remote last given to watch --shared here, until watch --shared none"`
	Silence     time.Duration `yaml:"silence" doc:"how long a machine may be silent before its tasks are taken over; it reports four times in that period"`
	Transcripts bool          `yaml:"transcripts" doc:"also share the prompts and answers of agents, from which trellis logs is made"`
	TimeZone    string        `yaml:"time_zone" doc:"the time zone in which the days of limits.day_tokens, day_cost_usd and trellis stats begin, such as Europe/Berlin or UTC, the same for all machines; empty: each machine's own"`
}

// Zone returns the time zone in which days begin.
func (s Shared) Zone() *time.Location {
	zone, err := zoneOf(s.TimeZone)
	if err != nil { // reported by check
		return time.Local
	}
	return zone
}

func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil // time.LoadLocation returns UTC for it
	}
	return time.LoadLocation(name)
}

// Cluster is the Temporal server by which trellis-cluster, a separate program, says which machine runs what.
type Cluster struct {
	Address    string        `yaml:"address" doc:"host and port of the Temporal server that tells trellis-cluster who runs what; keys and certificates come from the environment"`
	Namespace  string        `yaml:"namespace" doc:"the namespace on that server"`
	Repo       string        `yaml:"repo" doc:"the repository's name there, the same on all machines; its queues and workflows are named after it"`
	PreferLast time.Duration `yaml:"prefer_last" doc:"how long to wait for the machine that last had a task, and has its worktree, before another one may resume it; 0: not at all"`
}

// Mergeable is what notifications may be about besides a status: a task's pull request is approved, and its checks pass.
const Mergeable = "mergeable"

func defaults() Config {
	return Config{
		Planning:       Planning{TaskSpec: true, Speculate: true, Judge: true, Approval: "none", Approvers: 1, MaxSteps: 20},
		Worktree:       Worktree{Dir: "../<repo>-worktrees", SetupTimeout: 10 * time.Minute},
		VerifyTimeout:  10 * time.Minute,
		Baseline:       "true",
		VerifyFresh:    true,
		VerifyParallel: 1,
		Protected:      []string{".trellis/**"},
		Limits: Limits{Parallel: 2, Rounds: 5, Attempts: 3, Idle: 10 * time.Minute, Evaluate: 10 * time.Minute,
			Implement: 30 * time.Minute, Check: 15 * time.Minute, Debug: 20 * time.Minute, Accept: 10 * time.Minute,
			Tokens: 2_000_000, CostUSD: 20, Seconds: 14_400},
		Delivery: Delivery{Draft: true, CommitType: "feat", Update: "none"},
		Sandbox:  "off",
		Runs:     Runs{Keep: 30 * 24 * time.Hour},
		Shared:   Shared{Silence: 2 * time.Minute, Transcripts: true},
		Cluster:  Cluster{Address: "127.0.0.1:7233", Namespace: "default", PreferLast: 10 * time.Second},
	}
}

// File is a file's name, as problems show it, and its content.
type File struct {
	Name string
	Data []byte // empty if there is no such file
}

// Files has the files that a Config is made of.
type Files struct {
	Root     string // main checkout, which relative paths begin at
	Config   File   // .trellis/config.yaml
	Worktree File   // .trellis/worktree.yaml
	User     File   // of the user, for all projects
}

// Load returns the Config of files. It always returns one: what could not be used has its default, and nobody
// should run with a problem that is not a warning. A key of an earlier Trellis that has no meaning any more is a
// warning, any other unknown key is an error. Paths of programs and of the folder for worktrees are absolute in
// the Config, given that Root is. The floors of User are applied. Problems are sorted by file and line.
func Load(f Files) (*Config, []trellis.Problem) {
	c, d := decodeProject(f)
	c.makePathsAbsolute(f.Root)
	user, problems := LoadUser(f.User)
	user.ApplyFloors(c)
	d.problems = append(d.problems, problems...)
	slices.SortStableFunc(d.problems, func(a, b trellis.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return c, d.problems
}

// decodeProject returns the settings in the files of a project, without the user's floors, and a decoder with their problems.
func decodeProject(f Files) (*Config, *decoder) {
	c := defaults()
	d := decode(f.Config, &c, legacyKeys)
	d.mergeWorktreeFile(f.Worktree, &c)
	d.root = f.Root
	d.check(&c)
	return &c, d
}

// mergeWorktreeFile takes from a worktree.yaml what config.yaml does not say.
func (d *decoder) mergeWorktreeFile(f File, c *Config) {
	var w struct {
		Dir    string   `yaml:"worktree_dir"`
		Copy   []string `yaml:"copy"`
		Setup  []string `yaml:"post_create"`
		Verify []string `yaml:"verify"`
	}
	old := decode(f, &w, nil)
	d.problems = append(d.problems, old.problems...)
	if p, ok := old.places["worktree_dir"]; ok && !d.isSet("worktree.dir") {
		c.Worktree.Dir, d.places["worktree.dir"] = w.Dir, p
	}
	for _, l := range []struct {
		from, to string
		value    []string
		into     *[]string
	}{{"copy", "worktree.copy", w.Copy, &c.Worktree.Copy}, {"post_create", "worktree.setup", w.Setup, &c.Worktree.Setup}, {"verify", "verify", w.Verify, &c.Verify}} {
		if p, ok := old.places[l.from]; ok && !d.isSet(l.to) {
			*l.into, d.places[l.to] = l.value, p
			for i := range l.value {
				d.places[itemKey(l.to, i)] = old.places[itemKey(l.from, i)]
			}
		}
	}
}

func (c *Config) makePathsAbsolute(root string) {
	if root == "" {
		return
	}
	c.Worktree.Dir = strings.ReplaceAll(c.Worktree.Dir, "<repo>", filepath.Base(root))
	if !filepath.IsAbs(c.Worktree.Dir) {
		c.Worktree.Dir = filepath.Join(root, c.Worktree.Dir)
	}
	for _, command := range c.Agents.Commands {
		makeProgramAbsolute(root, command.Command)
	}
	for _, n := range c.Notify {
		makeProgramAbsolute(root, n.Command)
	}
}

// makeProgramAbsolute makes a relative path of a program absolute. A bare name is left to be found in PATH.
func makeProgramAbsolute(root string, argv []string) {
	if len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(root, argv[0])
	}
}

// AgentFor returns the agent that plays a role, and its model. The first of these that names one is taken:
// flag (--agent), agents.roles, the front matter of the role's file, taskAgent (the task's pipeline.agent),
// agents.default. A model counts if it was named with that agent, or with none. An empty agent stands for the
// first of the known ones that is signed in; an empty model for the agent's own default.
func (c *Config) AgentFor(role trellis.Role, taskAgent, flag, fileAgent, fileModel string) (agent, model string) {
	choices := []Choice{{Agent: flag}, c.Agents.Roles[role], {Agent: fileAgent, Model: fileModel}, {Agent: taskAgent}, {Agent: c.Agents.Default}}
	for _, s := range choices {
		agent = cmp.Or(agent, s.Agent)
	}
	for _, s := range choices {
		if model == "" && (s.Agent == "" || s.Agent == agent) {
			model = s.Model
		}
	}
	return agent, model
}

// PermissionFor returns what a role may do: its own permission, or what agents.roles says, narrowed
// by that of the role's file. filePermission may be empty, and never widens.
func (c *Config) PermissionFor(role trellis.Role, filePermission trellis.Permission) trellis.Permission {
	p := role.Permission()
	if said := c.Agents.Roles[role].Permission; said != "" {
		p = said
	}
	if filePermission != "" && isWider(p, filePermission) {
		return filePermission
	}
	return p
}
