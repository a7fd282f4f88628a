// Package doctor is `trellis doctor`: it checks the machine, the project and its tasks, and repairs what it can when it is asked to.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command returns `trellis doctor`.
func Command(console *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "show problems of this machine and this project, and how to fix them",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "repair", Usage: "repair broken task.json files and remove leftovers, asking about each"},
			&cli.BoolFlag{Name: "yes", Usage: "with --repair, do not ask and repair everything"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Checks git, the repository, config.yaml, the agent programs and whether they are signed in, the check
commands, limits of the system, locks, the file system, and all tasks. It changes nothing.
With --repair it shows how a task.json that is not valid JSON could be repaired, and writes that if you agree; the original
is kept as run/task.json.broken-TIME in the task's directory. Ambiguous cases are left to you.
Without a terminal and without --yes, --repair changes nothing either, and exits with 3 if there is something to repair.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet}, "trellis doctor", "trellis doctor --repair", "trellis doctor --repair --yes --json"),
		Action: func(c *cli.Context) error {
			o := options{repair: c.Bool("repair"), yes: c.Bool("yes"), json: c.Bool("json")}
			if o.yes && !o.repair {
				return app.Usagef("--yes agrees to what --repair asks: add --repair")
			}
			if o.repair {
				if err := console.RequirePerson("repair"); err != nil {
					return err
				}
			}
			return run(c.Context, console, o)
		},
	}
}

type options struct{ repair, yes, json bool }

// States of a finding.
const (
	stateOK      = "ok"
	stateWarning = "warning" // works, but not as well as it could
	stateError   = "error"   // tasks can't run like this
)

// finding is the result of one check, an object of doctor --json.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
	File   string `json:"file"` // that the finding is about, relative to the top of the repository
	Line   int    `json:"line"` // from 1; 0: none
	Column int    `json:"column"`
	Repair string `json:"repair"` // state of the repair; "" if doctor can't mend it
	Diff   string `json:"diff"`   // what the repair changes
	Saved  string `json:"saved"`  // where the file is kept as it was before the repair

	notes []string
	mend  func() (saved string, err error) // nil: a person has to mend it
}

func run(ctx context.Context, console *command.Console, o options) error {
	d := &diagnosis{console: console}
	d.checkAll(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	var shown strings.Builder // written at once, so that a closed pipe or a full disk is an error and not a signal
	for i, f := range d.findings {
		if f.mend == nil {
			if !o.json {
				f.show(&shown)
			}
			continue
		}
		if d.findings[i].Repair = repairPossible; !o.repair {
			d.findings[i].Hint = "trellis doctor --repair"
			if !o.json {
				d.findings[i].show(&shown)
			}
		}
	}
	if _, err := io.WriteString(console.Stdout, shown.String()); err != nil {
		return err
	}
	if o.repair {
		if err := d.repair(o.yes, o.json); err != nil {
			return err
		}
	}
	if o.json {
		if err := terminal.JSON(console.Stdout, d.findings); err != nil {
			return err
		}
	}
	return d.exitError(o)
}

func (d *diagnosis) exitError(o options) error {
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
	err := app.AsKind(app.ErrUnmet, fmt.Errorf("%s found", text.Count(bad, "problem")))
	if left > 0 {
		return app.WithHints(err, "nothing was changed: answer on a terminal, or agree to all of it with trellis doctor --repair --yes")
	}
	return err
}

// Summarize prints what is wrong, if anything is, for a command that ends with that. It returns the
// check that found the first error, or "" for none, and how to mend it.
func Summarize(ctx context.Context, console *command.Console) (check, hint string) {
	d := &diagnosis{console: console}
	d.checkAll(ctx)
	wrong := 0
	for _, f := range d.findings {
		if f.State == stateOK {
			continue
		}
		wrong++
		if f.State == stateError && check == "" {
			check, hint = f.Check, cmp.Or(f.Hint, "trellis doctor")
		}
		console.Say("%s: %s: %s", f.State, f.Check, text.OneLine(f.Detail))
		if f.Hint != "" {
			console.Say("next: %s", f.Hint)
		}
	}
	if wrong == 0 {
		console.Say("trellis doctor finds no problem")
	}
	return check, hint
}

// diagnosis collects findings.
type diagnosis struct {
	console         *command.Console
	findings        []finding
	invalidSettings bool // the settings have errors: a value that seems to be missing may be set
}

func (d *diagnosis) add(state, check, detail, hint string) {
	d.findings = append(d.findings, finding{Check: check, State: state, Detail: detail, Hint: hint})
}

func (d *diagnosis) problem(check string, p trellis.Problem) {
	f := finding{Check: check, State: stateError, Detail: p.Error(), Hint: p.Hint, File: p.File, Line: p.Line, Column: p.Column}
	if p.Warning {
		f.State = stateWarning
	}
	d.findings = append(d.findings, f)
}

// verdict adds a finding: an error if err is not nil, and otherwise that the check is ok.
func (d *diagnosis) verdict(check, detail string, err error) {
	if err == nil {
		d.add(stateOK, check, detail, "")
		return
	}
	f := finding{Check: check, State: stateError, Detail: err.Error(), Hint: strings.Join(app.HintsOf(err), "; ")}
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		f.File, f.Line, f.Column = p.File, p.Line, p.Column
	}
	d.findings = append(d.findings, f)
}

func (d *diagnosis) checkAll(ctx context.Context) {
	d.add(stateOK, "trellis", command.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH, "")
	d.git(ctx)
	p, err := d.console.OpenRepository()
	if err != nil {
		d.verdict("repository", "", err)
		d.agents(ctx, &app.Project{Env: d.console.Caller()}, &config.Config{})
		return
	}
	_, _, err = p.Repo.Run(ctx, git.Command{Dir: p.Root, Args: []string{"rev-parse"}}) // only checks whether git works there
	d.verdict("repository", p.Root, err)
	if err != nil {
		return // all other checks that use git would fail too
	}
	_, err = p.Repo.Author().Identity(ctx)
	if errors.As(err, new(*git.IdentityError)) {
		err = app.WithHints(errors.New("git does not know who you are, and so can't commit"), `git config --global user.name "Your Name"`, "git config --global user.email you@example.com")
	}
	d.verdict("identity", "git knows who commits", err)
	_, err = d.console.Open(ctx)
	d.verdict("project", ".trellis is set up", err)
	c := d.config(ctx, p)
	d.trust(ctx, p)
	d.agents(ctx, p, c)
	d.sandbox(ctx, p, c)
	d.verify(p, c)
	d.findings = append(d.findings, notifierFindings(p, c)...)
	d.delivery(ctx, p, c)
	checkSharing(ctx, d, p)
	d.files(p)
	d.system(ctx, p)
	d.tasks(ctx, p, c)
	d.cache(p)
}

func (d *diagnosis) trust(ctx context.Context, p *app.Project) {
	j, err := p.Gate.Judge()
	if err != nil {
		return // an error in the user's own settings, which was reported
	}
	branch, err := j.Chosen(ctx)
	switch {
	case err != nil:
		d.add(stateWarning, "trust", err.Error(), "trellis trust")
	case j.Everything:
		d.add(stateOK, "trust", "all that is checked out is trusted, by TRELLIS_TRUST or your settings", "")
	case strings.HasPrefix(branch, "none:"):
		d.add(stateWarning, "trust", "the trusted branch is "+branch, "git remote set-head origin --auto")
	default:
		d.add(stateOK, "trust", "the trusted branch is "+branch, "")
	}
	if err := p.CheckTrustedNow(ctx); err != nil { // other findings are about these settings, not about those in force
		d.add(stateWarning, "trust", err.Error(), strings.Join(app.HintsOf(err), "; "))
	}
}

func (d *diagnosis) git(ctx context.Context) {
	v, err := (&git.Repo{Env: d.console.Env}).Version(ctx)
	if err != nil {
		err = app.WithHints(err, "install git "+git.MinVersion+" or newer")
	}
	d.verdict("git", v, err)
}

func (d *diagnosis) config(ctx context.Context, p *app.Project) *config.Config {
	c, problems := app.CheckedConfig(ctx, p)
	d.invalidSettings = len(trellis.Errors(problems)) > 0
	for _, problem := range problems {
		d.problem("config", problem)
	}
	if len(problems) == 0 {
		d.add(stateOK, "config", "config.yaml is valid", "")
	}
	d.userOverrides(p)
	return c
}

// userOverrides reports where settings of the user override those of the project.
func (d *diagnosis) userOverrides(p *app.Project) {
	files := p.Settings.Files()
	user, _ := config.LoadUser(files.User) // its errors are reported with the others
	files.User = config.File{}
	c, _ := config.Load(files)
	for _, raised := range user.ApplyFloors(c) {
		d.add(stateOK, "config", raised+": "+p.Settings.UserFile+" says so", "")
	}
}

// verify checks whether the commands that decide can run.
func (d *diagnosis) verify(p *app.Project, c *config.Config) {
	if len(c.Verify) == 0 && !d.invalidSettings {
		d.add(stateWarning, "verify", "no check commands: nothing is executed to see whether a task is done", "name them under verify in .trellis/config.yaml")
	}
	project := research.Project{Root: p.Root, LookPath: d.console.Caller().LookPath}
	for _, command := range c.Verify {
		if why := project.Missing(command); why != "" {
			d.add(stateError, "verify", fmt.Sprintf("`%s` can't run: %s", command, why), "fix verify in .trellis/config.yaml")
		} else {
			d.add(stateOK, "verify", command, "")
		}
	}
}
