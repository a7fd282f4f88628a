// Package configure is `trellis config`: commands that show and change settings, of a project or of a person.
package configure

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// settings implements the commands of `trellis config`.
type settings struct{ *command.Console }

// Command returns `trellis config`.
func Command(console *command.Console) *cli.Command {
	cmd := settings{console}
	user := &cli.BoolFlag{Name: "user", Usage: "use your own file, for all projects, instead of .trellis/config.yaml"}
	return &cli.Command{
		Name:  "config",
		Usage: "show and change settings",
		Subcommands: []*cli.Command{
			{
				Name: "get", Usage: "print the value of a setting", ArgsUsage: "KEY", Flags: []cli.Flag{user, command.JSONFlag()},
				Description: command.Manual(`Prints the value in effect, a list with one item per line. --json also shows where it comes from.`,
					[]int{command.ExitDone, command.ExitUsage}, "trellis config get limits.parallel", "trellis config get verify --json"),
				Action: cmd.get,
			},
			{
				Name: "set", Usage: "change a setting", ArgsUsage: "KEY VALUE...", Flags: []cli.Flag{user},
				Description: command.Manual(`Changes only this value in the file: comments, order and everything else stay byte for byte. Unknown keys and
invalid values are refused before anything is written. A list takes any number of values; [] alone
empties it. What you set counts as written here: it is trusted without asking.`,
					[]int{command.ExitDone, command.ExitUsage}, "trellis config set limits.parallel 3", "trellis config set verify 'go vet ./...' 'go test ./...'",
					"trellis config set agents.roles.judge.model haiku", "trellis config set --user sandbox require"),
				Action: cmd.set,
			},
			{
				Name: "unset", Usage: "remove a setting from the file, so that its default applies", ArgsUsage: "KEY", Flags: []cli.Flag{user},
				Description: command.Manual(`KEY may also be a group of settings, such as limits or agents.commands.mine.`,
					[]int{command.ExitDone, command.ExitUsage}, "trellis config unset limits.parallel"),
				Action: cmd.unset,
			},
			{
				Name: "list", Usage: "list every setting with its value and where that comes from", Flags: []cli.Flag{user, command.JSONFlag()},
				Description: command.Manual(`A value comes from its default, a line of the project's file, or a line of your own file if that takes
precedence over the project (docs/reference/config.md).`,
					[]int{command.ExitDone, command.ExitUsage}, "trellis config list", "trellis config list --user", "trellis config list --json"),
				Action: cmd.list,
			},
		},
	}
}

// file returns the settings file that a call is about, and its project, which is nil with --user.
func (cmd settings) file(c *cli.Context) (*app.SettingsFile, *app.Project, error) {
	if c.Bool("user") {
		f, err := cmd.Caller().UserSettingsFile()
		return f, nil, err
	}
	p, err := cmd.Open(c.Context)
	if err != nil {
		return nil, nil, err
	}
	return p.SettingsFile(), p, nil
}

func (cmd settings) get(c *cli.Context) error {
	f, _, err := cmd.file(c)
	if err != nil {
		return err
	}
	s, problems, err := f.Setting(c.Args().First())
	if err != nil {
		return err
	}
	if s.Wrong != nil {
		return app.WithHints(s.Wrong, "trellis config set "+trellis.ShellWord(s.Key)+" VALUE")
	}
	cmd.SayProblems(problems)
	return cmd.Print(c.Bool("json"), s, func() error {
		if list, ok := s.Value.([]string); ok && len(list) == 0 {
			return nil
		}
		text := s.Text()
		if command.IsTerminal(cmd.Stdout) { // the settings may have come by git and not be trusted yet
			text = trellis.Visible(text)
		}
		_, err := fmt.Fprintln(cmd.Stdout, text)
		return err
	})
}

func (cmd settings) set(c *cli.Context) error {
	if err := cmd.RequirePerson("change settings"); err != nil {
		return err
	}
	f, p, err := cmd.file(c)
	if err != nil {
		return err
	}
	key := c.Args().First()
	before, _, _ := f.Setting(key) // Set reports an unknown key
	changed, err := f.Set(key, c.Args().Tail())
	if err != nil {
		return err
	}
	now, _, err := f.Setting(key)
	switch {
	case err != nil:
		return err
	case !changed:
		cmd.Say("%s is %s already", key, now.Inline())
		return nil
	case p != nil && now.Source == config.FromUser:
		cmd.Say("%s is set in %s; in force is %s, by %s", key, f.Name, now.Inline(), cmd.source(now))
		return nil
	}
	cmd.Say("%s: %s → %s (%s)", key, text.Clip(before.Inline(), 60), text.Clip(now.Inline(), 60), cmd.source(now))
	return nil
}

func (cmd settings) unset(c *cli.Context) error {
	if err := cmd.RequirePerson("change settings"); err != nil {
		return err
	}
	f, _, err := cmd.file(c)
	if err != nil {
		return err
	}
	key := c.Args().First()
	changed, err := f.Unset(key)
	if err != nil {
		return err
	}
	if !changed {
		cmd.Say("%s does not say %s", cmd.shortPath(f.Name), key)
		return nil
	}
	if now, _, err := f.Setting(key); err == nil {
		cmd.Say("%s is %s now (%s)", key, text.Clip(now.Inline(), 60), cmd.source(now))
		return nil
	}
	cmd.Say("%s is taken out of %s", key, cmd.shortPath(f.Name))
	return nil
}

func (cmd settings) list(c *cli.Context) error {
	f, p, err := cmd.file(c)
	if err != nil {
		return err
	}
	list, problems := f.Settings()
	cmd.SayProblems(problems)
	if p != nil {
		if err := p.CheckTrustedNow(c.Context); err != nil {
			cmd.Say("%v", app.WithNextCommand(err))
		}
	}
	return cmd.Print(c.Bool("json"), append([]config.Setting{}, list...), func() error { return cmd.print(list) })
}

// print prints settings, with short values in a column.
func (cmd settings) print(list []config.Setting) error {
	const most = 24
	keys, values := 0, 0
	for _, s := range list {
		keys = max(keys, len(s.Key))
		if n := len([]rune(s.Inline())); n <= most {
			values = max(values, n)
		}
	}
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", keys, s.Key, values, s.Inline(), cmd.source(s))
	}
	_, err := fmt.Fprint(cmd.Stdout, trellis.Visible(b.String()))
	return err
}

// source returns where the value of a setting comes from.
func (cmd settings) source(s config.Setting) string {
	if s.File == "" {
		return string(config.FromDefault)
	}
	return fmt.Sprintf("%s:%d", cmd.shortPath(s.File), s.Line)
}

// shortPath returns the name of a file with ~ for the home folder.
func (cmd settings) shortPath(name string) string {
	home := cmd.Getenv("HOME")
	if rel, err := filepath.Rel(home, name); home != "" && err == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return name
}

// Keys returns the keys that a settings file sets, with said, or else all that it may set, for completion.
func Keys(console *command.Console, user, onlySet bool) (keys []string) {
	var f *app.SettingsFile
	if user {
		f, _ = console.Caller().UserSettingsFile()
	} else if p, err := console.OpenRepository(); err == nil {
		f = p.SettingsFile()
	}
	if f == nil {
		return nil
	}
	list, _ := f.Settings() // errors in the file are reported when it is used
	for _, s := range list {
		if strings.Contains(s.Key, "[") || onlySet && s.Source == config.FromDefault {
			continue
		}
		keys = append(keys, s.Key)
	}
	if !onlySet && !user {
		for _, role := range trellis.Roles {
			for _, what := range []string{"agent", "model", "permission"} {
				keys = append(keys, "agents.roles."+string(role)+"."+what)
			}
		}
	}
	return keys
}

// Values returns the words that a setting can have, nil if it takes other values too.
func Values(user bool, key string) []string {
	scope := config.ScopeProject
	if user {
		scope = config.ScopeUser
	}
	k, err := scope.Key(key)
	if err != nil {
		return nil
	}
	return k.Values()
}
