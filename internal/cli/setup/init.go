// Package setup is `trellis init`: it sets a repository up, with what it finds there.
package setup

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/doctor"
	"github.com/trellis-tasks/trellis/internal/cli/migrate"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

// scaffold has the files of a fresh .trellis.
//
//go:embed scaffold
var scaffold embed.FS

// setups implements the command that sets a repository up.
type setups struct{ *command.Console }

// Command returns `trellis init`.
func Command(a *command.Console) *cli.Command {
	cmd := setups{a}
	return &cli.Command{
		Name:  "init",
		Usage: "set up .trellis in a repository",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent program to use (default: the first found of claude, codex, opencode, gemini)"},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "`NAME` of the person working here (not committed)"},
		},
		Description: command.Manual(`Writes config.yaml, workflow.md and guidelines to .trellis, with the agent program and the check
commands that it finds, and lists what it created. It never overwrites an existing file.
In a repository with Trellis 0.3 to 0.7 it reports which tasks, settings and agents it found, which of them are used
and which are not, and what to do next. You can run it again at any time.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis init", "trellis init --agent claude -u ada"),
		Action: func(c *cli.Context) error {
			return cmd.init(c.Context, c.String("agent"), c.String("user"))
		},
	}
}

func (cmd setups) init(ctx context.Context, agent, user string) error {
	p, err := cmd.OpenRepository()
	if err != nil {
		return err
	}
	if err := cmd.checkFolders(p); err != nil {
		return err
	}
	root := filepath.Join(p.Root, ".trellis")
	files, err := cmd.scaffolding(ctx, p, agent)
	if err != nil {
		return err
	}
	if user != "" {
		if files[".developer"], err = cmd.developerFile(p.Root, user); err != nil {
			return err
		}
	}
	move := migrate.Earlier{Console: cmd.Console, Project: p, Ignore: files[".gitignore"], Checks: verifyCommands}
	if err := move.RemoveExisting(files); err != nil {
		return err
	}
	made, err := cmd.createFiles(p, root, files)
	if err != nil {
		return err
	}
	if err := p.Store.MakeFolder(); err != nil {
		return err
	}
	if err := move.Tell(); err != nil {
		return err
	}
	cmd.recordFiles(ctx, p, made)
	return cmd.afterInit(ctx, p, made, agent)
}

// checkFolders returns an error, before anything is made, if something else is where the folders of Trellis have to be.
func (cmd setups) checkFolders(p *app.Project) error {
	for _, name := range []string{".trellis", ".trellis/spec", p.Store.Rel(p.Store.Tasks())} {
		if err := durable.FolderBelow(p.Root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			unfit := trellis.UnreadableProblem(name, err)
			return app.WithHints(unfit, unfit.Hint, "trellis init")
		}
	}
	return nil
}

// recordFiles records that this person made the settings and the guidelines, even if others have the same on a
// branch, and which branch is trusted. If nothing can be recorded, git tells who made them when they are used.
func (cmd setups) recordFiles(ctx context.Context, p *app.Project, files []string) {
	if cmd.InsideRun() {
		return
	}
	j, err := p.Gate.Judge()
	if err == nil {
		_, _, err = j.FindTrunk(ctx)
	}
	if err == nil {
		err = j.RecordFiles(subject.Settings(), files...)
	}
	if err == nil {
		err = j.RecordFiles(subject.ContextFiles(files...), files...)
	}
	p.Gate.WarnNotRecorded(err)
}

// createFiles creates the files that don't exist. The guidelines become visible all at once: if there are some, no
// others are created, so those of an init that was cut off must not look like a choice of the project.
func (cmd setups) createFiles(p *app.Project, root string, files map[string][]byte) (made []string, err error) {
	spec, hidden := filepath.Join(root, "spec"), filepath.Join(root, durable.TempPrefix+"spec")
	_, err = os.Lstat(spec)
	whole := errors.Is(err, fs.ErrNotExist)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if _, err := os.Lstat(path); err == nil {
			cmd.Say("%s is there already", p.Store.Rel(path))
			continue
		}
		if name == "config.yaml" && len(app.MissingSettings(p)) > 0 {
			cmd.Say("%[1]s is created again; the last commit has another one: %[2]s checkout HEAD -- :/%[1]s", p.Store.Rel(path), p.Repo.CommandPrefix())
		}
		at := path
		if rest, ok := strings.CutPrefix(path, spec+string(filepath.Separator)); ok && whole {
			at = filepath.Join(hidden, rest)
		}
		if err := p.Store.Disk.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return made, err
		}
		if at == path {
			err = p.Store.Disk.Replace(at, nil, files[name])
		} else {
			err = p.Store.Disk.WriteFile(at, files[name], 0o644)
		}
		switch {
		case errors.Is(err, durable.ErrChanged):
			cmd.Say("%s is there already", p.Store.Rel(path)) // created meanwhile
		case err != nil:
			return made, err
		default:
			made = append(made, p.Store.Rel(path))
			fmt.Fprintln(cmd.Stdout, p.Store.Rel(path))
		}
	}
	if _, err := os.Lstat(hidden); err == nil && whole {
		return made, p.Store.Disk.Rename(hidden, spec)
	}
	return made, nil
}

// developerFile returns the content of a new .developer. An existing one stays.
func (cmd setups) developerFile(root, user string) ([]byte, error) {
	user = strings.TrimSpace(user)
	if user == "" || strings.ContainsAny(user, "\n=") {
		return nil, app.Usagef("-u wants a name on one line, without =")
	}
	now, err := app.Developer(root)
	if err != nil {
		return nil, err
	}
	if now != "" && now != user {
		cmd.Say("%s works here; to change that: rm %s && trellis init -u %s", now, trellis.ShellWord(app.ShortPath(cmd.Dir, filepath.Join(root, ".trellis", ".developer"))), trellis.ShellWord(user))
	}
	return []byte(user + "\n"), nil
}

// afterInit prints what is wrong with this machine and the project, and last what has to be done first.
func (cmd setups) afterInit(ctx context.Context, p *app.Project, made []string, agent string) error {
	wrong, mend := doctor.Summarize(ctx, cmd.Console)
	if set, _ := p.Config(); agent != "" && agent != set.Agents.Default {
		cmd.Say("--agent %s is not in .trellis/config.yaml, which stays as it is", agent)
		if _, named := set.Agents.Commands[agent]; !named && slices.Contains(agents.Known(), agent) {
			cmd.Say("next: name it under agents.commands in .trellis/config.yaml: %s: %s", agent, doctor.CommandLine(agent))
		}
		cmd.Say("next: trellis config set agents.default %s", trellis.ShellWord(agent))
	}
	commit, err := cmd.tellCommit(ctx, p, made)
	if err != nil {
		return err
	}
	if commit != "" {
		cmd.Say("next: %s", commit)
	}
	switch {
	case wrong != "":
		cmd.Say("first fix what is wrong with %s; next: %s", wrong, mend)
	case commit == "":
		cmd.Say("next: trellis plan 'what is wanted'")
	}
	return ctx.Err()
}

// tellCommit prints that those of the files made that git neither has nor ignores are to be committed, and returns
// the command. If there is no commit yet it returns "": doctor has printed the command for the first one.
func (cmd setups) tellCommit(ctx context.Context, p *app.Project, made []string) (command string, err error) {
	open, first, err := app.Uncommitted(ctx, p, made)
	if err != nil || open == 0 {
		return "", err
	}
	files := text.Count(open, "file")
	if first {
		cmd.Say("made %s: read .trellis/config.yaml; the first commit takes them with it", files)
		return "", nil
	}
	git := "git"
	if cmd.Dir != p.Root { // below it, or in a linked worktree
		git += " -C " + trellis.ShellWord(p.Root)
	}
	cmd.Say("made %s: read .trellis/config.yaml and commit what was made before the first plan", files)
	return fmt.Sprintf(`%s add .trellis && %[1]s commit -m "Set up Trellis"`, git), nil
}

// scaffolding returns the files of a fresh .trellis, by their path below it.
func (cmd setups) scaffolding(ctx context.Context, p *app.Project, agent string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(scaffold, "scaffold", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "scaffold/")
		if name == "gitignore" {
			name = ".gitignore"
		}
		files[name], err = scaffold.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	set, _ := p.Config() // errors in the settings are reported later
	if agent == "" {
		agent = cmd.installedAgent()
	} else if _, err := agents.New(agent, p.Agents(set).Options()); errors.Is(err, agents.ErrUnknown) && !slices.Contains(agents.Known(), agent) {
		return nil, app.AsKind(app.ErrUsage, err)
	}
	found := findWorkspace(p.Root)
	cmd.sayWorkspace(found)
	files["config.yaml"], err = fillConfig(files["config.yaml"], agent, found)
	if box := sandbox.Detect(ctx, cmd.Env); box.OK() {
		files["config.yaml"] = bytes.Replace(files["config.yaml"], []byte("#sandbox: off\n"), []byte("sandbox: auto\n"), 1)
		if set.Sandbox == sandbox.Off {
			cmd.Say("%s works here: sandbox: auto in .trellis/config.yaml keeps agents to their folders (docs/reference/sandbox.md)", box)
		}
	}
	return files, err
}

// sayWorkspace prints what was found and goes into config.yaml.
func (cmd setups) sayWorkspace(w workspace) {
	if w.tool != "" {
		cmd.Say("a workspace of %s: %s", w.tool, text.Count(len(w.packages), "package"))
	} else if len(w.packages) > 0 {
		cmd.Say("%s: %s", text.Count(len(w.packages), "package"), strings.Join(dirsOf(w.packages), ", "))
	}
	if len(w.verify) > 0 {
		cmd.Say("verify: %s", strings.Join(w.verify, "; "))
	}
	if len(w.setup) > 0 {
		cmd.Say("worktree.setup: %s", strings.Join(w.setup, "; "))
	}
}

func dirsOf(list []pkg) (dirs []string) {
	for _, p := range list {
		dirs = append(dirs, p.dir)
	}
	return dirs
}

// fillConfig puts what was found into the template of config.yaml. It writes strings as JSON, which is valid YAML.
func fillConfig(template []byte, agent string, w workspace) ([]byte, error) {
	var failed error
	quoted := func(s string) string {
		q, err := text.JSON(s)
		failed = errors.Join(failed, err)
		return strings.TrimSpace(string(q))
	}
	list := func(commands []string, indent string) (lines string) {
		for _, c := range commands {
			lines += "\n" + indent + "- " + quoted(c)
		}
		return lines
	}
	filled := string(template)
	if agent != "" {
		filled = strings.Replace(filled, `default: ""`, "default: "+quoted(agent), 1)
	}
	if c, known := agents.KnownCommand(agent); known {
		flow := func(words []string) string {
			var list []string
			for _, w := range words {
				list = append(list, quoted(w))
			}
			return "[" + strings.Join(list, ", ") + "]"
		}
		filled = strings.Replace(filled, "#  commands:\n", fmt.Sprintf("  commands:\n    %s: {type: %s, command: %s, env_pass: %s}\n", agent, c.Type, flow(c.Argv), flow(c.EnvPass)), 1)
	}
	if len(w.verify) > 0 {
		filled = strings.Replace(filled, "verify: []", "verify:"+list(w.verify, "  "), 1)
	}
	if len(w.setup) > 0 {
		filled = strings.Replace(filled, "#worktree:\n#  dir: ../<repo>-worktrees\n#  copy: []\n#  setup: []\n", "worktree:\n#  dir: ../<repo>-worktrees\n#  copy: []\n  setup:"+list(w.setup, "    ")+"\n", 1)
	}
	if len(w.packages) > 0 {
		lines := "packages:\n"
		for _, p := range w.packages {
			lines += "  " + quoted(p.name) + ": {path: " + quoted(p.dir) + "}\n"
		}
		filled = strings.Replace(filled, "#packages:\n#  web: {path: packages/web}\n", lines, 1)
	}
	return []byte(filled), failed
}

// installedAgent returns the first agent program on the search path.
func (cmd setups) installedAgent() string {
	for _, name := range append(agents.Programs(), agents.Known()...) {
		if cmd.Caller().LookPath(name) == nil {
			return name
		}
	}
	return ""
}
