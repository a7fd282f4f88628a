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

// Agents is what of the settings of a project makes agents: their programs, the sandbox, and what they must not tell.
type Agents struct {
	p   *Project
	cfg *config.Config
}

// Agents are those of the project with these settings.
func (p *Project) Agents(cfg *config.Config) Agents { return Agents{p, cfg} }

// Named is the error of an agent that a person names and that there is not; "" is none.
func (a Agents) Named(name string) error {
	if _, err := agents.New(name, a.Options()); name != "" && errors.Is(err, agents.ErrUnknown) {
		return err
	}
	return nil
}

// Box is the sandbox of a project's programs.
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

// Cell is a place in the box for an agent.
func Cell(box *sandbox.Box) agents.Sandbox {
	return func(ctx context.Context, r agents.Request, own agents.Own) (agents.Place, error) {
		c, err := box.Enter(ctx, sandbox.Need{Kind: string(r.Role), Dir: r.Dir, Edit: r.Writes(), Own: sandbox.Own(own)})
		return agents.Place{Launcher: c.Launcher, Files: c.Files, Env: c.Env, Name: c.Name, Leave: c.Leave}, err
	}
}

// firstAgent is the agent to take when nobody chose one. It is looked for until there is one: a watcher that began
// without sees when somebody has signed in.
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

// secrets are the values that must neither be kept nor committed: those of the environment, also of variables that the
// settings name as keys, those in the settings, and those in files that worktrees get a copy of.
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

// Options say which agents there are.
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

// sharedEnv is what agents get of it too, so that they can do what the checks do: all but what holds a secret that the project
// does not name.
func (a Agents) sharedEnv() []string {
	known := secrets.InEnv(a.p.Env.Vars)
	return slices.DeleteFunc(a.Box().Environment(a.p.Env.CommandEnv()), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return !slices.Contains(a.cfg.SandboxEnv, name) && slices.ContainsFunc(known, func(secret string) bool { return secret != "" && strings.Contains(value, secret) })
	})
}
