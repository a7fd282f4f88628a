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
	Verify          []string           `yaml:"verify" doc:"commands that decide whether a task is done: all must exit with 0, run in this order"`
	VerifyTimeout   time.Duration      `yaml:"verify_timeout" doc:"how long one verify command may take; 0: no limit"`
	VerifyAll       bool               `yaml:"verify_all" doc:"run all verify commands although one failed; false: of the rest only those that took less than 10 s at base"`
	VerifyParallel  int                `yaml:"verify_parallel" min:"1" doc:"how many verify commands run at once; more than 1 only if none needs what another one makes"`
	Baseline        string             `yaml:"baseline" oneof:"true false parallel" doc:"run the verify commands once at base, so that what was broken before is known: true, before any agent works, or beside the first one when they passed at another base within a day and took longer than 10 s; parallel, beside it whenever they have to be run; false, not at all"`
	VerifyFresh     bool               `yaml:"verify_fresh" doc:"verify runs in a fresh checkout of what is to be committed, with copy and setup; false: in the worktree, where files that git ignores are still there"`
	Protected       []string           `yaml:"protected" doc:"globs of paths that a task may not change without a person's approval; .trellis/spec, .trellis/tasks, .trellis/.runtime and .trellis/.current-task are excepted"`
	Limits          Limits             `yaml:"limits"`
	Delivery        Delivery           `yaml:"delivery"`
	Trackers        Trackers           `yaml:"trackers"`
	DependsOnMerged bool               `yaml:"depends_on_merged" doc:"a dependency is met once it is merged (completed), not already in review"`
	Sandbox         string             `yaml:"sandbox" oneof:"off auto require" doc:"run agents and the project's commands in a sandbox of the operating system: off, auto (where there is one), require"`
	SandboxWrite    []string           `yaml:"sandbox_write" doc:"more paths that they may write in it, absolute or below ~/; sockets too"`
	SandboxHome     []string           `yaml:"sandbox_home" doc:"more of the home folder, and of what else is hidden, that they may read in it, absolute or below ~/; tools and settings without accounts are there anyway"`
	SandboxNetwork  []string           `yaml:"sandbox_network" doc:"who has the whole network in it: verify (what decides), steps (commands of plans), and roles, where agents reach only what sandbox_hosts says; setup has it unless sandbox_offline names it"`
	SandboxOffline  []string           `yaml:"sandbox_offline" doc:"who else has no network in it: setup (worktree.setup), and roles"`
	SandboxHosts    []string           `yaml:"sandbox_hosts" unset:"with sandbox: auto agents have the whole network" doc:"what agents reach of the network in it besides their models: hosts, as api.example.org, *.example.org or 127.0.0.1:8080; with sandbox: auto only where this is said, [] too, with require in any case"`
	SandboxEnv      []string           `yaml:"sandbox_env" doc:"names of variables of your environment that commands, and agents, get in it besides the usual ones; with sandbox: off, which accounts of agents commands get"`
	Packages        map[string]Package `yaml:"packages" key:"name"`
	DefaultPackage  string             `yaml:"default_package" doc:"the package of a task that names none"`
	Hooks           Hooks              `yaml:"hooks"`
	Runs            Runs               `yaml:"runs"`
	Objectives      Objectives         `yaml:"objectives"`
	Shared          Shared             `yaml:"shared"`
	Cluster         Cluster            `yaml:"cluster"`
	Notify          []Notify           `yaml:"notify"`
}

// Agents says which agents play the roles.
type Agents struct {
	Default  string                  `yaml:"default" doc:"the agent of every role that nothing else is said of; empty: the first of claude, codex and opencode that is signed in"`
	Roles    map[trellis.Role]Choice `yaml:"roles" key:"role"`
	Commands map[string]Command      `yaml:"commands" key:"name"`
	APIs     map[string]API          `yaml:"apis" key:"name"`
	Prices   map[string]Price        `yaml:"prices" key:"model"`
}

// Choice says which agent plays one role.
type Choice struct {
	Agent      string             `yaml:"agent" doc:"claude, codex, opencode, or one of agents.commands or agents.apis"`
	Model      string             `yaml:"model" doc:"a model, in the agent's own spelling"`
	Permission trellis.Permission `yaml:"permission" oneof:"none read edit full" doc:"less than the role has, or full (without the agent's own sandbox) for a role that edits"`
}

// Command is a program of the project's own that plays roles.
type Command struct {
	Command []string          `yaml:"command" doc:"the program and its arguments; a relative path of the program begins at the main checkout"`
	Read    []string          `yaml:"read" doc:"further arguments for roles with permission none or read"`
	Edit    []string          `yaml:"edit" doc:"further arguments for roles with permission edit or full"`
	Session []string          `yaml:"session" doc:"the last arguments when it goes on in a session, whose name takes the place of {{session}}; empty: it has no sessions"`
	Env     map[string]string `yaml:"env" key:"variable" doc:"environment variables that the program gets besides the usual ones"`
	EnvPass []string          `yaml:"env_pass" doc:"names of variables of your environment that the program gets besides the usual ones, such as that of its key"`
	Output  string            `yaml:"output" oneof:"text events" doc:"what it prints: its answer, or one JSON event a line"`
	Type    string            `yaml:"type" oneof:"acp" doc:"acp: it speaks the Agent Client Protocol, as gemini --acp does; empty: it reads the prompt from its standard input"`
}

// API is a model that is called directly, without a program. It can play roles that answer or read.
type API struct {
	API     string `yaml:"api" oneof:"anthropic openai" doc:"how it is asked: Anthropic's Messages, or OpenAI's chat completions, which many servers speak"`
	Model   string `yaml:"model" doc:"the model, in the server's spelling"`
	BaseURL string `yaml:"base_url" doc:"the server, with /v1 for openai; empty: the provider's own"`
	KeyEnv  string `yaml:"key_env" doc:"the environment variable that holds the key; empty: ANTHROPIC_API_KEY or OPENAI_API_KEY, and no key with a base_url"`
}

// Price is what a model costs, in USD for a million tokens. The cost of agents that report none is estimated by it.
type Price struct {
	Input      float64 `yaml:"input" doc:"USD for a million tokens of input"`
	Output     float64 `yaml:"output" doc:"USD for a million tokens of output"`
	CacheRead  float64 `yaml:"cache_read" unset:"that of input" doc:"USD for a million tokens of input that comes from the provider's cache; not said: as input"`
	CacheWrite float64 `yaml:"cache_write" unset:"that of input" doc:"USD for a million tokens of input that is written to it; not said: as input"`
}

// Planning is how a requirement becomes a task.
type Planning struct {
	TaskSpec        bool          `yaml:"taskspec" doc:"write down the intent before the plan"`
	Speculate       bool          `yaml:"speculate" doc:"ask for research and TaskSpec while a requirement of 120 bytes or more is evaluated, and end both when it is rejected; false: only once it is accepted"`
	Judge           bool          `yaml:"judge" doc:"have a second agent judge each plan"`
	Approval        string        `yaml:"approval" oneof:"none plan" doc:"none, or plan: every plan waits for a person"`
	Approvers       int           `yaml:"approvers" min:"1" doc:"how many different people must approve"`
	ApprovalExpires time.Duration `yaml:"approval_expires" doc:"after this an approval counts no more; 0: never"`
	MaxSteps        int           `yaml:"max_steps" min:"1" doc:"the most steps of a plan"`
}

// Worktree is where and how a task's worktree is made.
type Worktree struct {
	Dir          string        `yaml:"dir" doc:"the folder of all worktrees, from the main checkout; <repo> is that one's name"`
	Copy         []string      `yaml:"copy" doc:"files and folders of the main checkout that git does not have and a worktree needs"`
	Setup        []string      `yaml:"setup" doc:"commands that make a fresh worktree usable; what they leave there has to be ignored by git"`
	Warm         []string      `yaml:"warm" doc:"folders that setup fills from lock files alone, node_modules say: kept as setup made them at base, and copied into checkouts with the same lock files, where setup is not run when it makes nothing else; not for setup that does something outside of the worktree, nor for folders that name their own path, as .venv, or whose files have to keep their times, as target"`
	SetupTimeout time.Duration `yaml:"setup_timeout" doc:"how long one of them may take; 0: no limit"`
}

// Runs says how much `trellis cleanup --runs` leaves of the runs of completed and archived tasks.
type Runs struct {
	Keep time.Duration `yaml:"keep" doc:"how long cleanup --runs keeps what agents were told and did in runs of completed and archived tasks; 0: for good"`
	Size int           `yaml:"size" doc:"the most megabytes of it that cleanup --runs keeps, the newest; 0: no limit"`
}

// Limits bounds what tasks and agents may use. Zero means no limit where it is allowed.
type Limits struct {
	Parallel   int            `yaml:"parallel" min:"1" doc:"tasks that run at once"`
	PerAgent   map[string]int `yaml:"per_agent" key:"agent" min:"1" doc:"tasks that run at once with this agent in any role"`
	Rounds     int            `yaml:"rounds" min:"1" doc:"check rounds of one run"`
	Attempts   int            `yaml:"attempts" min:"1" doc:"tries of what failed for a passing reason, over a task's life"`
	Idle       time.Duration  `yaml:"idle" doc:"how long an agent may be silent; 0: no limit"`
	Evaluate   time.Duration  `yaml:"evaluate" doc:"how long each planning call and each grade may take; 0: no limit"`
	Implement  time.Duration  `yaml:"implement" doc:"how long the implement phase may take; 0: no limit"`
	Check      time.Duration  `yaml:"check" doc:"how long a check may take; 0: no limit"`
	Debug      time.Duration  `yaml:"debug" doc:"how long a debug or heal may take; 0: no limit"`
	Accept     time.Duration  `yaml:"accept" doc:"how long the acceptance may take; 0: no limit"`
	Tokens     int64          `yaml:"tokens" doc:"tokens of one task; 0: no limit"`
	CostUSD    float64        `yaml:"cost_usd" doc:"what one task may cost; 0: no limit"`
	Seconds    int64          `yaml:"seconds" doc:"agents' time for one task; 0: no limit"`
	DayTokens  int64          `yaml:"day_tokens" doc:"tokens of all agents in one day, on all machines that share the tasks, by local time unless shared.time_zone says otherwise; 0: no limit"`
	DayCostUSD float64        `yaml:"day_cost_usd" doc:"what all agents may cost in one day, on all machines that share the tasks, by local time unless shared.time_zone says otherwise; 0: no limit"`
}

// Delivery says what is done with the commit.
type Delivery struct {
	Push       bool     `yaml:"push" doc:"push the branch"`
	PR         bool     `yaml:"pr" doc:"open a pull request with gh, or a merge request on GitLab; pushes the branch too"`
	Draft      bool     `yaml:"draft" doc:"as a draft"`
	CommitType string   `yaml:"commit_type" doc:"the type in the commit's subject, as in feat(scope): title"`
	Update     string   `yaml:"update" oneof:"none merge rebase" doc:"bring the branch up to its base before it is delivered, when that has moved: none, merge, or rebase"`
	React      bool     `yaml:"react" doc:"work on review comments and failed CI of pull requests"`
	Labels     []string `yaml:"labels" doc:"labels of the pull request"`
	Reviewers  []string `yaml:"reviewers" doc:"who is asked to review it: people, or teams as ORG/TEAM"`
}

// EveryPlan is the reason why a plan waits by Planning.Approval.
const EveryPlan = "planning.approval wants a person's approval of every plan"

// Package is one part of a repository that holds several.
type Package struct {
	Path string `yaml:"path" doc:"its folder, from the top of the repository"`
	Type string `yaml:"type" oneof:"submodule" doc:"submodule, or empty for a plain folder"`
}

// Hooks are commands that run when something has happened to a task. A hook that fails stops nothing.
type Hooks struct {
	AfterCreate  []string `yaml:"after_create" doc:"commands that run after a task was made"`
	AfterStart   []string `yaml:"after_start" doc:"commands that run after a task was started"`
	AfterFinish  []string `yaml:"after_finish" doc:"commands that run after a task ended"`
	AfterArchive []string `yaml:"after_archive" doc:"commands that run after a task was archived"`
}

// Objectives says how roadmaps are worked on.
type Objectives struct {
	Watch bool `yaml:"watch" doc:"the watcher writes into objectives what becomes of their tasks, and plans the steps of those with auto_advance"`
}

// Shared says how several machines share the tasks of the repository.
type Shared struct {
	Remote      string        `yaml:"remote" doc:"the git remote whose checkouts share their tasks: each is one machine's at a time; empty: the one that watch --shared named here last, until watch --shared none"`
	Silence     time.Duration `yaml:"silence" doc:"how long nothing is heard of a machine before its tasks are taken from it; it is heard of four times in that"`
	Transcripts bool          `yaml:"transcripts" doc:"give the others what agents were told and wrote too, from which trellis logs is made"`
	TimeZone    string        `yaml:"time_zone" doc:"the time zone in which the days of limits.day_tokens, day_cost_usd and trellis stats begin, as Europe/Berlin or UTC: the same for all machines; empty: each machine's own"`
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
	Address    string        `yaml:"address" doc:"host and port of the Temporal server that trellis-cluster asks who runs what; keys and certificates come from the environment"`
	Namespace  string        `yaml:"namespace" doc:"the namespace there"`
	Repo       string        `yaml:"repo" doc:"what the repository is called there, the same on all machines; its queues and workflows are named after it"`
	PreferLast time.Duration `yaml:"prefer_last" doc:"how long the machine that had a task last, and has its worktree, is waited for before another one may go on with it; 0: not at all"`
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
