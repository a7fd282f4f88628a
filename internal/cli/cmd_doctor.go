package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/research"
)

// doctorCommand is `trellis doctor`.
func (a *console) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "say what is wrong with this machine and this project, and how to mend it",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "repair", Usage: "mend broken task.json files and remove leftovers, one by one, after a question"},
			&cli.BoolFlag{Name: "yes", Usage: "with --repair, ask nothing and mend all of it"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Looks at git, the repository, config.yaml, the agent programs and whether they are signed in, the check
commands, limits of the system, locks and the file system, and at all tasks. It changes nothing.
With --repair it shows how a task.json that is no JSON could be mended and writes that when you say yes; the file as
it was is kept as run/task.json.broken-TIME in the task's directory. What could mean two things is left to you.
Without a terminal and without --yes, --repair changes nothing too, and exits with 3 when there is something to mend.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet}, "trellis doctor", "trellis doctor --repair", "trellis doctor --repair --yes --json"),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.WrongArguments(c)
			}
			o := doctorOptions{repair: c.Bool("repair"), yes: c.Bool("yes"), json: c.Bool("json")}
			if o.yes && !o.repair {
				return app.Usagef("--yes agrees to what --repair asks: add --repair")
			}
			if _, inside := proc.InsideRun(a.Env); inside && o.repair {
				return app.Usagef("this runs inside a task or a run: only a person can repair")
			}
			return a.doctor(c.Context, o)
		},
	}
}

type doctorOptions struct{ repair, yes, json bool }

// States of a finding.
const (
	stateOK      = "ok"
	stateWarning = "warning" // works, but not as well as it could
	stateError   = "error"   // tasks can't run like this
)

// finding is one thing that doctor looked at, an object of doctor --json.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
	File   string `json:"file"` // that it is about, from the top of the repository
	Line   int    `json:"line"` // from 1; 0: none
	Column int    `json:"column"`
	Repair string `json:"repair"` // what becomes of it, where doctor can mend it
	Diff   string `json:"diff"`   // how
	Saved  string `json:"saved"`  // where the file is kept as it was

	notes []string
	mend  func() (saved string, err error) // nil: a person has to
}

func (a *console) doctor(ctx context.Context, o doctorOptions) error {
	d := &diagnosis{app: a}
	d.all(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, f := range d.findings {
		if f.mend == nil {
			if !o.json {
				a.printFinding(f)
			}
			continue
		}
		if d.findings[i].Repair = repairPossible; !o.repair {
			d.findings[i].Hint = "trellis doctor --repair"
			if !o.json {
				a.printFinding(d.findings[i])
			}
		}
	}
	if o.repair {
		if err := d.repair(o.yes, o.json); err != nil {
			return err
		}
	}
	if o.json {
		if err := terminal.JSON(a.Stdout, d.findings); err != nil {
			return err
		}
	}
	return d.end(o)
}

// end is what is left to mend.
func (d *diagnosis) end(o doctorOptions) error {
	bad, left := 0, 0
	for _, f := range d.findings {
		switch {
		case o.repair && f.Repair == repairPossible:
			left++
			bad++
		case f.State == stateError:
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	err := app.AsKind(app.ErrUnmet, fmt.Errorf("%s to mend", command.Count(bad, "thing")))
	if left > 0 {
		return app.WithHints(err, "nothing was changed: answer on a terminal, or agree to all of it with trellis doctor --repair --yes")
	}
	return err
}

// diagnosis collects findings.
type diagnosis struct {
	app      *console
	findings []finding
}

func (d *diagnosis) add(state, check, detail, hint string) {
	d.findings = append(d.findings, finding{Check: check, State: state, Detail: detail, Hint: hint})
}

// verdict adds a finding that is an error when err is one.
func (d *diagnosis) verdict(check, detail string, err error) {
	if err == nil {
		d.add(stateOK, check, detail, "")
		return
	}
	d.add(stateError, check, err.Error(), strings.Join(app.HintsOf(err), "; "))
}

func (d *diagnosis) all(ctx context.Context) {
	d.add(stateOK, "trellis", command.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH, "")
	d.git(ctx)
	p, err := d.app.OpenRepository()
	d.verdict("repository", rootOf(p), err)
	if err != nil {
		d.agents(ctx, &app.Project{}, &config.Config{})
		return
	}
	_, err = p.Repo.Identity(ctx)
	d.verdict("identity", "git knows who commits", err)
	_, err = d.app.Open(ctx)
	d.verdict("project", ".trellis is set up", err)
	c := d.config(p)
	d.trust(ctx, p)
	d.agents(ctx, p, c)
	d.sandbox(ctx, p, c)
	d.verify(p, c)
	d.notify(c)
	d.delivery(ctx, p, c)
	d.files(p)
	d.system(ctx, p)
	d.tasks(ctx, p, c)
}

// trust says which branch is trusted.
func (d *diagnosis) trust(ctx context.Context, p *app.Project) {
	j, err := p.Gate.Judge()
	if err != nil {
		return // of the person's own settings, which was said
	}
	branch, err := j.Chosen(ctx)
	switch {
	case err != nil:
		d.add(stateWarning, "trust", err.Error(), "trellis trust")
	case strings.HasPrefix(branch, "none:"):
		d.add(stateWarning, "trust", "the trusted branch is "+branch, "git remote set-head origin --auto")
	default:
		d.add(stateOK, "trust", "the trusted branch is "+branch, "")
	}
}

func rootOf(p *app.Project) string {
	if p == nil {
		return ""
	}
	return p.Root
}

func (d *diagnosis) git(ctx context.Context) {
	v, err := (&git.Repo{Env: d.app.Env}).Version(ctx)
	if err != nil {
		err = app.WithHints(err, "install git "+git.MinVersion+" or newer")
	}
	d.verdict("git", v, err)
}

func (d *diagnosis) config(p *app.Project) *config.Config {
	c, problems := p.Config()
	for _, problem := range problems {
		state := stateError
		if problem.Warning {
			state = stateWarning
		}
		d.add(state, "config", problem.Error(), problem.Hint)
	}
	if len(problems) == 0 {
		d.add(stateOK, "config", "config.yaml is valid", "")
	}
	d.floors(p)
	return c
}

// floors says where settings of the person hold, and not those of the project.
func (d *diagnosis) floors(p *app.Project) {
	files := p.Settings.Files()
	user, _ := config.LoadUser(files.User) // what is wrong with it is said with the rest
	files.User = config.File{}
	c, _ := config.Load(files)
	for _, raised := range user.Raise(c) {
		d.add(stateOK, "config", raised+": "+p.Settings.UserFile+" says so", "")
	}
}

// agents looks for the programs that could play the roles, and checks those that config names.
func (d *diagnosis) agents(ctx context.Context, p *app.Project, c *config.Config) {
	o := p.Agents(c).Options()
	o.Sandbox = app.Cell(p.Agents(c).Box())
	usable := false
	for _, f := range agents.Detect(ctx, o) {
		switch {
		case f.Path == "":
			d.add(stateOK, f.Name, "not installed", "")
			continue
		case f.SignIn == agents.NotSignedIn:
			d.add(stateWarning, f.Name, strings.TrimSpace(f.Version+" is not signed in"), signInHint(f.Name))
			continue
		case f.Unboxed:
			d.add(stateError, f.Name, f.Version+": its own sandbox can't run here, so that every command of it would fail",
				"see why: codex sandbox -- true; else sandbox: require and permission: full for the roles that edit, or another agent")
			continue
		}
		usable = true
		if f.Shut != "" {
			d.add(stateWarning, f.Name, f.Version+" does not start in the sandbox: "+f.Shut, "name what it is made of: sandbox_home: [FOLDER] in .trellis/config.yaml; docs/sandbox.md")
			continue
		}
		d.add(stateOK, f.Name, strings.TrimSpace(fmt.Sprintf("%s, signed in: %s", f.Version, f.SignIn)), "")
	}
	named := namedAgents(c)
	d.apis(ctx, o, named)
	for _, name := range named {
		if _, listed := o.APIs[name]; listed {
			continue
		}
		err := agents.Check(ctx, name, o)
		d.verdict("agent", name+" can be used", err)
		usable = usable || err == nil
	}
	if !usable {
		d.add(stateError, "agent", "no agent can be used", "install claude, codex or opencode and sign in, or name a program of your own in agents.commands")
	}
}

// apis lists the models that are asked directly, and whether their keys are there: an error for one that
// config names for a role. Nothing is sent to them.
func (d *diagnosis) apis(ctx context.Context, o agents.Options, named []string) {
	for _, name := range slices.Sorted(maps.Keys(o.APIs)) {
		model := strings.TrimSpace(o.APIs[name].Model + " " + o.APIs[name].BaseURL)
		err := agents.Check(ctx, name, o)
		if err == nil {
			d.add(stateOK, name, model+", asked directly", "")
			continue
		}
		state := stateWarning
		if slices.Contains(named, name) {
			state = stateError
		}
		d.add(state, name, model+": "+flow.AsFailure(err).Detail, "put the key into that variable of the environment")
	}
}

func signInHint(agent string) string {
	switch agent {
	case agents.Claude:
		return "claude auth login"
	case agents.Codex:
		return "codex login"
	}
	return agent + " auth login"
}

// verify looks whether the commands that decide can run.
func (d *diagnosis) verify(p *app.Project, c *config.Config) {
	if len(c.Verify) == 0 {
		d.add(stateWarning, "verify", "no check commands: nothing is executed to see whether a task is done", "name them under verify in .trellis/config.yaml")
	}
	project := research.Project{Root: p.Root, LookPath: d.app.Caller().LookPath}
	for _, command := range c.Verify {
		if why := project.Missing(command); why != "" {
			d.add(stateError, "verify", fmt.Sprintf("`%s` can't run: %s", command, why), "mend verify in .trellis/config.yaml")
		} else {
			d.add(stateOK, "verify", command, "")
		}
	}
}

// notify looks whether the programs that hear news are there. Nothing is sent to a webhook.
func (d *diagnosis) notify(c *config.Config) {
	for _, n := range c.Notify {
		if len(n.Command) == 0 {
			continue
		}
		if err := d.app.Caller().LookPath(n.Command[0]); err != nil {
			d.add(stateError, "notify", fmt.Sprintf("`%s` can't run: %v", n.Command[0], err), "mend notify in .trellis/config.yaml")
		} else {
			d.add(stateOK, "notify", strings.Join(n.On, ", ")+": "+n.Command[0], "")
		}
	}
}

// files looks whether locks hold on the file system of the tasks.
func (d *diagnosis) files(p *app.Project) {
	kind, err := d.app.FileSystem(p.Root)
	switch {
	case err != nil:
		d.add(stateWarning, "file system", err.Error(), "")
	case kind != "":
		d.add(stateError, "file system", kind+": locks don't hold between the machines that share it", command.SharedHint)
	default:
		d.add(stateOK, "file system", "of this machine", "")
	}
	d.verdict("locks", "a second handle is kept out", d.app.probeLock(p))
}

// probeLock takes a lock twice, which must fail.
func (a *console) probeLock(p *app.Project) (err error) {
	if _, err := os.Stat(filepath.Join(p.Root, ".trellis")); err != nil {
		return nil // reported as such
	}
	runtime, err := p.RuntimeDir()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(runtime, "probe-")
	if err != nil {
		return fmt.Errorf("trying locks: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "lock")
	first, err := durable.TryLock(path, durable.Holder{PID: os.Getpid(), Since: a.Now()})
	if err != nil {
		return fmt.Errorf("trying locks: %w", err)
	}
	second, err := durable.TryLock(path, durable.Holder{PID: os.Getpid(), Since: a.Now()})
	if err == nil {
		return errors.Join(errors.New("a lock was given twice"), second.Unlock(), first.Unlock())
	}
	return first.Unlock()
}

// ends says how what a call leaves is found at its end: the surest of the ways that this machine has, tried out.
func (d *diagnosis) ends(ctx context.Context) {
	_, err := proc.CgroupFolder()
	if err == nil {
		said := proc.NewCapped(4 << 10)
		_, err = proc.Run(ctx, proc.Command{Argv: []string{"cat", "/proc/self/cgroup"}, Env: d.app.Env, Stdout: said, Marker: "doctor", Wall: 10 * time.Second})
		if err == nil && !strings.Contains(said.String(), "/trellis-") {
			err = errors.New("the system starts no program in one")
		}
	}
	if err == nil {
		d.add(stateOK, "processes", "each call has a control group, which ends as a whole", "")
		return
	}
	d.add(stateOK, "processes", "what a call leaves is found by its marks, and as an orphan; no control groups (docs/agents.md): "+err.Error(), "")
}

// system looks at limits of the operating system.
func (d *diagnosis) system(ctx context.Context, p *app.Project) {
	if runtime.GOOS == "darwin" {
		d.add(stateWarning, "system", "macOS ends no agents by itself when trellis is killed: the next start does", "")
		return
	}
	d.ends(ctx)
	entries, _ := os.ReadDir(p.Store.Tasks()) // none, if it can't be read
	for _, limit := range []struct {
		name string
		want int
	}{{"max_user_watches", 1024 + 2*len(entries)}, {"max_user_instances", 32}} {
		data, err := os.ReadFile("/proc/sys/fs/inotify/" + limit.name)
		have, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || convErr != nil {
			d.add(stateWarning, "inotify", "its limits can't be read; a watcher looks every 30 seconds instead", "")
			return
		}
		if have < limit.want {
			d.add(stateWarning, "inotify", fmt.Sprintf("%s is %d; a watcher may have to look every 30 seconds instead", limit.name, have),
				fmt.Sprintf("sudo sysctl fs.inotify.%s=%d", limit.name, 4*limit.want))
			return
		}
	}
	d.add(stateOK, "inotify", "enough watches", "")
}
