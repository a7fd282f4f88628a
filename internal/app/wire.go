package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Site returns everything that running tasks in a project needs, with the settings that are in force.
func (p *Project) Site(ctx context.Context) (*runner.Site, error) {
	q, err := p.InForce(ctx)
	if err != nil {
		return nil, err
	}
	if q.Settings.Kept != "" {
		p.WarnOldSettings(ctx)
	}
	return q.SiteWith(ctx)
}

// SiteWith returns a site with the project's current settings.
func (p *Project) SiteWith(ctx context.Context) (*runner.Site, error) {
	_, _ = p.RuntimeDir() // creates the .gitignore before anything else writes there; if the folder can't be made, the later write reports it
	cfg, err := p.ValidConfig()
	if err != nil {
		return nil, err
	}
	return p.Wire(ctx, cfg, p), nil
}

// Wire returns the site of a project with the settings cfg. The agents come from home: its programs and scripts, and its
// instructions for each role.
func (p *Project) Wire(ctx context.Context, cfg *config.Config, home *Project) *runner.Site {
	p.harden(cfg)
	secret := p.Agents(cfg).secrets()
	known := home.Agents(cfg).Options()
	known.Secrets = secret
	box := p.Agents(cfg).Box()
	if cfg.Sandbox != sandbox.Off {
		known.Sandbox = AgentSandbox(box)
	}
	redact := proc.NewRedactor(secret).String
	s := &runner.Site{Store: p.Store, Repo: p.Repo, Config: cfg,
		Agent: func(name string) (agents.Agent, error) { return agents.New(name, known) },
		Available: func(ctx context.Context, name string) error {
			if err := box.Ready(ctx); err != nil {
				return err
			}
			return agents.Check(ctx, name, known)
		},
		Default:  firstAgent(ctx, known),
		Instruct: home.instructionReader(ctx, cfg.AgentNames()),
		LookPath: home.Env.LookPath,
		Environ:  home.Env.CommandEnv(), Box: box, Trust: p.Gate.existingJudge(),
		Redact: redact, Secrets: secret, Traces: home.Traces.tracer(redact),
		Mergeable: func(t *taskdir.Task, commit string) { home.News.Notifier().Mergeable(t, commit) },
		Spent:     func(dir string, today trellis.Usage) { home.News.notifyBudget(dir, today, cfg.Limits) },
		Build:     buildID(), Disk: p.Store.Disk, Now: home.Env.Now}
	SharingOf(p).join(s, cfg)
	if p.Gate.existingJudge() != nil {
		s.TrustedPrograms, s.Keys, s.Account = p.checkProgramTrust, p.Gate.keys, thisAccount()
	}
	return s
}

// SiteForOrders returns the site for a command that runs nothing itself. If no settings are trusted, the site has the untrusted
// ones of the checkout, without anything in them that would start a program.
func (p *Project) SiteForOrders(ctx context.Context) (*runner.Site, error) {
	q, err := p.InForce(ctx)
	if errors.Is(err, trust.ErrUntrusted) {
		return p.ReadingSite(ctx)
	}
	if err != nil {
		return nil, err
	}
	return q.SiteWith(ctx)
}

// ReadingSite returns a site for commands that only read: nothing is judged, and nothing that the settings name is run.
func (p *Project) ReadingSite(ctx context.Context) (*runner.Site, error) {
	cfg, err := p.ValidConfig()
	if err != nil {
		return nil, err
	}
	return withoutSideEffects(p.Wire(ctx, cfg, p)), nil
}

// withoutSideEffects returns s after it removed from it whatever the settings would start (hooks) or notify.
func withoutSideEffects(s *runner.Site) *runner.Site {
	s.Config.Hooks, s.Config.Notify, s.Config.Trackers = config.Hooks{}, nil, config.Trackers{} // trackers say where a token is sent
	return s
}

// buildID returns an id of the running binary, the same only for the same code. A binary built from a modified checkout also has
// its modification time in the id.
func buildID() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	clean := false
	for _, s := range info.Settings {
		clean = clean || s.Key == "vcs.modified" && s.Value == "false"
	}
	id := info.Main.Version + " " + info.GoVersion
	if path, err := os.Executable(); err == nil && !clean {
		if st, err := os.Stat(path); err == nil {
			id += fmt.Sprintf(" %d", st.ModTime().UnixNano())
		}
	}
	return id
}
