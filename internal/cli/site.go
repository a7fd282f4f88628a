package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/secrets"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// site is all that running tasks in a project needs, with the settings that are in force.
func (a *console) site(ctx context.Context, p *project) (*dispatch.Site, error) {
	q, err := a.inForce(ctx, p)
	if err != nil {
		return nil, err
	}
	if q.Settings != "" {
		a.sayBefore(ctx, p)
	}
	return a.siteWith(ctx, q)
}

// siteWith is a site with the settings of p.
func (a *console) siteWith(ctx context.Context, p *project) (*dispatch.Site, error) {
	cfg, err := a.config(p)
	if err != nil {
		return nil, err
	}
	return a.wire(ctx, p, cfg, p), nil
}

// wire makes the site of a project with these settings. Agents are those of home: its programs and
// scripts, and what it tells each role.
func (a *console) wire(ctx context.Context, p *project, cfg *config.Config, home *project) *dispatch.Site {
	p.beWary(cfg)
	known := a.secrets(p, cfg)
	crew := a.crew(home, cfg)
	crew.Secrets = known
	box := a.box(p, cfg)
	if cfg.Sandbox != sandbox.Off {
		crew.Sandbox = cell(box)
	}
	s := &dispatch.Site{Store: p.Store, Repo: p.Repo, Config: cfg,
		Agent: func(name string) (agents.Agent, error) { return agents.New(name, crew) },
		Available: func(ctx context.Context, name string) error {
			if err := box.Ready(ctx); err != nil {
				return err
			}
			return agents.Check(ctx, name, crew)
		},
		Default:  firstAgent(ctx, crew),
		Instruct: a.instruct(ctx, home),
		LookPath: a.lookPath,
		Environ:  a.commandEnv(), Box: box, Trust: p.judge,
		Redact: proc.NewRedactor(known).String, Secrets: known,
		Mergeable: func(t *taskdir.Task, commit string) { a.news.teller().Mergeable(t, commit) },
		Build:     build(), Disk: p.Store.Disk, Now: a.Now}
	if p.judge != nil {
		s.TrustedPrograms, s.Keys, s.Account = a.trustedPrograms(p), p.keys, thisAccount()
	}
	return s
}

// box is the sandbox of a project's programs.
func (a *console) box(p *project, cfg *config.Config) *sandbox.Box {
	b := &sandbox.Box{Mode: cfg.Sandbox, Environ: a.Env, Repo: p.Repo, Write: cfg.SandboxWrite, Home: cfg.SandboxHome, Network: cfg.SandboxNetwork, Offline: cfg.SandboxOffline, Env: cfg.SandboxEnv, Hosts: cfg.SandboxHosts, Program: "/proc/self/exe"}
	for _, api := range cfg.Agents.APIs {
		b.Keys = append(b.Keys, api.KeyEnv)
	}
	for _, c := range cfg.Agents.Commands {
		b.Keys = append(b.Keys, c.EnvPass...)
	}
	return b
}

// cell is a place in the box for an agent.
func cell(box *sandbox.Box) agents.Sandbox {
	return func(ctx context.Context, r agents.Request, own agents.Own) (agents.Place, error) {
		c, err := box.Enter(ctx, sandbox.Need{Kind: string(r.Role), Dir: r.Dir, Edit: r.Writes(), Own: sandbox.Own(own)})
		return agents.Place{Launcher: c.Launcher, Files: c.Files, Env: c.Env, Name: c.Name, Leave: c.Leave}, err
	}
}

// firstAgent is the agent to take when nobody chose one. It is looked for until there is one: a watcher that began
// without sees when somebody has signed in.
func firstAgent(ctx context.Context, crew agents.Options) func() (string, error) {
	var mu sync.Mutex
	found := ""
	return func() (_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if found == "" {
			found, err = agents.Default(ctx, crew)
		}
		return found, err
	}
}

// secrets are the values that must neither be kept nor committed: those of the environment, also of variables that the
// settings name as keys, those in the settings, and those in files that worktrees get a copy of.
func (a *console) secrets(p *project, cfg *config.Config) []string {
	known := slices.Concat(secrets.InEnv(a.Env), secrets.ValuesIn(p.Root, cfg.Worktree.Copy))
	for _, api := range cfg.Agents.APIs {
		if key := a.Getenv(api.KeyEnv); key != "" {
			known = append(known, key)
		}
	}
	for _, c := range cfg.Agents.Commands {
		for name, value := range c.Env {
			known = append(known, secrets.InEnv([]string{name + "=" + value})...)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// crew says which agents there are.
func (a *console) crew(p *project, cfg *config.Config) agents.Options {
	o := agents.Options{Environ: a.Env, Shared: a.sharedEnv(p, cfg), Root: p.Root, Script: filepath.Join(p.settingsRoot(), ".trellis", "rehearsal.yaml"),
		Commands: map[string]agents.Command{}, APIs: map[string]agents.API{}}
	for name, c := range cfg.Agents.Commands {
		o.Commands[name] = agents.Command{Argv: c.Command, Read: c.Read, Edit: c.Edit, Session: c.Session, Env: c.Env, EnvPass: c.EnvPass, Output: c.Output}
	}
	for name, c := range cfg.Agents.APIs {
		o.APIs[name] = agents.API{Kind: c.API, Model: c.Model, BaseURL: c.BaseURL, KeyEnv: c.KeyEnv}
	}
	o.Files = (&git.Repo{Env: a.Env}).Files
	return o
}

// commandEnv is the environment of the project's own commands: the caller's, without what would lead git
// elsewhere.
func (a *console) commandEnv() (env []string) {
	elsewhere := []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX"}
	for _, kv := range a.Env {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(elsewhere, name) {
			env = append(env, kv)
		}
	}
	return env
}

// sharedEnv is what agents get of it too, so that they can do what the checks do: all but what holds a secret that the project
// does not name.
func (a *console) sharedEnv(p *project, cfg *config.Config) []string {
	known := secrets.InEnv(a.Env)
	return slices.DeleteFunc(a.box(p, cfg).Environment(a.commandEnv()), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return !slices.Contains(cfg.SandboxEnv, name) && slices.ContainsFunc(known, func(secret string) bool { return secret != "" && strings.Contains(value, secret) })
	})
}

// lookPath says whether a program is there, in the PATH of this call.
func (a *console) lookPath(program string) error {
	if strings.Contains(program, "/") {
		_, err := os.Stat(program)
		return err
	}
	for _, dir := range filepath.SplitList(a.Getenv("PATH")) {
		if st, err := os.Stat(filepath.Join(dir, program)); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return nil
		}
	}
	return &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// roleWords are the files in which the project says something to a role, by their paths, nil for one that is not there.
type roleWords map[string][]byte

func frameFile(role trellis.Role) string { return ".trellis/templates/" + string(role) + ".md.tmpl" }

func roleFile(role trellis.Role) string {
	if role == "step" { // who does a step implements
		role = trellis.Implement
	}
	return ".trellis/agents/" + string(role) + ".md"
}

// wordsFor are those below root.
func wordsFor(root string, role trellis.Role) (roleWords, error) {
	w := roleWords{}
	for _, name := range []string{frameFile(role), roleFile(role)} {
		data, err := durable.ReadBelow(root, name, durable.MaxDocument)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading what the project tells the role %s: %w", role, err)
		}
		w[name] = data
	}
	return w, nil
}

// instructions are what they say, unless reading them failed.
func (w roleWords) instructions(role trellis.Role, unread error) (in dispatch.Instructions, err error) {
	if unread != nil {
		return in, unread
	}
	in.Override.Frame = w[frameFile(role)]
	name := roleFile(role)
	if w[name] == nil {
		return in, nil
	}
	r, problem := specs.ParseRole(name, w[name])
	if problem != nil {
		return in, problem
	}
	in.Agent, in.Model, in.Override.Instructions = r.Agent, r.Model, r.Body
	if role == "step" {
		role = trellis.Implement
	}
	in.Permission, err = narrowed(name, role, r.Permission)
	return in, err
}

// narrowed is the permission that a role file gives, which may take away and never give.
func narrowed(file string, role trellis.Role, p trellis.Permission) (trellis.Permission, error) {
	if p == "" {
		return "", nil
	}
	rank := func(p trellis.Permission) int {
		for i, q := range trellis.Permissions {
			if p == q {
				return i
			}
		}
		return len(trellis.Permissions)
	}
	if rank(p) > rank(role.Permission()) {
		return "", &trellis.Problem{File: file, Message: fmt.Sprintf("permission %s is more than the role %s has (%s): a role file can only narrow it", p, role, role.Permission())}
	}
	return p, nil
}
