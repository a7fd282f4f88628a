package app

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/secrets"
)

// Agents derives from a project's settings what agents need: their programs, the sandbox, and the secrets they must not reveal.
type Agents struct {
	p   *Project
	cfg *config.Config
}

// Agents returns the agents of the project for the settings cfg.
func (p *Project) Agents(cfg *config.Config) Agents { return Agents{p, cfg} }

// CheckName returns an error if no agent has the name that a person gave, nil for "".
func (a Agents) CheckName(name string) error {
	if _, err := agents.New(name, a.Options()); name != "" && errors.Is(err, agents.ErrUnknown) {
		return err
	}
	return nil
}

// Box returns the sandbox for a project's programs.
func (a Agents) Box() *sandbox.Box {
	b := &sandbox.Box{Mode: a.cfg.Sandbox, Environ: a.p.Env.Vars, Repo: a.p.Repo, Write: a.cfg.SandboxWrite, Home: a.cfg.SandboxHome, Network: a.cfg.SandboxNetwork, Offline: a.cfg.SandboxOffline, Env: a.cfg.SandboxEnv, Hosts: a.cfg.SandboxHosts, Program: "/proc/self/exe"}
	for _, api := range a.cfg.Agents.APIs {
		b.Keys = append(b.Keys, api.KeyEnv)
	}
	for _, c := range a.cfg.Agents.Commands {
		b.Keys = append(b.Keys, c.EnvPass...)
	}
	return b
}

// AgentSandbox returns a function that opens a place in the box for an agent.
func AgentSandbox(box *sandbox.Box) agents.Sandbox {
	return func(ctx context.Context, r agents.Request, own agents.Own) (agents.Place, error) {
		c, err := box.Enter(ctx, sandbox.Need{Kind: string(r.Role), Dir: r.Dir, Edit: r.Writes(), Own: sandbox.Own(own)})
		return agents.Place{Launcher: c.Launcher, Files: c.Files, Env: c.Env, Name: c.Name, Leave: c.Leave}, err
	}
}

// firstAgent returns a function that finds the agent to use when nobody chose one. It searches on each call until it finds one,
// so that a watcher that began without an agent notices when somebody has signed in.
func firstAgent(ctx context.Context, known agents.Options) func() (string, error) {
	var mu sync.Mutex
	found := ""
	return func() (_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if found == "" {
			found, err = agents.Default(ctx, known)
		}
		return found, err
	}
}

// secrets returns the values that must be neither stored nor committed: those in the environment, including variables that the
// settings name as keys, those in the settings, and those in files that are copied into worktrees.
func (a Agents) secrets() []string {
	known := slices.Concat(secrets.InEnv(a.p.Env.Vars), secrets.ValuesIn(a.p.Root, a.cfg.Worktree.Copy))
	for _, api := range a.cfg.Agents.APIs {
		if key := a.p.Env.Get(api.KeyEnv); key != "" {
			known = append(known, key)
		}
	}
	for _, n := range a.cfg.Notify {
		for _, name := range n.Secrets() {
			if value := a.p.Env.Get(name); value != "" {
				known = append(known, value)
			}
		}
	}
	for _, c := range a.cfg.Agents.Commands {
		for name, value := range c.Env {
			known = append(known, secrets.InEnv([]string{name + "=" + value})...)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// Options returns the options that define which agents there are.
func (a Agents) Options() agents.Options {
	o := agents.Options{Environ: a.p.Env.Vars, Shared: a.sharedEnv(), Root: a.p.Root, Script: filepath.Join(a.p.Settings.Dir(), ".trellis", "rehearsal.yaml"),
		Commands: map[string]agents.Command{}, APIs: map[string]agents.API{}, Prices: prices.Table{}}
	for name, c := range a.cfg.Agents.Commands {
		o.Commands[name] = agents.Command{Argv: c.Command, Read: c.Read, Edit: c.Edit, Session: c.Session, Env: c.Env, EnvPass: c.EnvPass, Output: c.Output, Type: c.Type}
	}
	for name, c := range a.cfg.Agents.APIs {
		o.APIs[name] = agents.API{Kind: c.API, Model: c.Model, BaseURL: c.BaseURL, KeyEnv: c.KeyEnv}
	}
	for model, p := range a.cfg.Agents.Prices {
		o.Prices[model] = prices.Price(p)
	}
	o.Files = (&git.Repo{Env: a.p.Env.Vars}).History().Files
	return o
}

// sharedEnv returns the variables of the command environment that agents get too, so that they can do what the checks do: all
// except those that hold a secret and are not named by the project.
func (a Agents) sharedEnv() []string {
	known := secrets.InEnv(a.p.Env.Vars)
	return slices.DeleteFunc(a.Box().Environment(a.p.Env.CommandEnv()), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return !slices.Contains(a.cfg.SandboxEnv, name) && slices.ContainsFunc(known, func(secret string) bool { return secret != "" && strings.Contains(value, secret) })
	})
}
