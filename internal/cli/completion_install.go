package cli

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

// completionPlace is where a shell looks for the completion scripts of a user.
type completionPlace struct {
	file string
	next string // what a person has to do to make the shell read file; "": nothing
}

// installCompletion writes the script for a shell, "" for the one in $SHELL, to where the shell looks for it.
func installCompletion(a *command.Console, shell string) error {
	if err := a.RequirePerson("install completion"); err != nil {
		return err
	}
	if shell == "" {
		if shell = filepath.Base(a.Getenv("SHELL")); a.Getenv("SHELL") == "" {
			return app.WithHints(app.Usagef("$SHELL names no shell"), "trellis completion install bash")
		}
	}
	script, err := commandline.Script("trellis", shell)
	if err != nil {
		return err
	}
	place, err := completionPlaceOf(a, shell)
	if err != nil {
		return err
	}
	if err := a.Disk.MkdirAll(filepath.Dir(place.file), 0o755); err != nil {
		return err
	}
	err = a.Disk.Edit(place.file, func(old []byte) ([]byte, error) {
		if first, _, _ := bytes.Cut(old, []byte("\n")); len(old) > 0 && !bytes.Contains(first, []byte("trellis")) {
			return nil, app.WithHints(app.Usagef("%s is there and not of trellis", place.file), fmt.Sprintf("move it away, then trellis completion install %s", shell))
		}
		return script, nil
	})
	if err != nil {
		return err
	}
	a.Say("wrote %s", place.file)
	if place.next != "" {
		a.Say("next: %s", place.next)
	}
	return a.Result(place.file)
}

func completionPlaceOf(a *command.Console, shell string) (completionPlace, error) {
	home := a.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return completionPlace{}, app.Usagef("$HOME names no folder")
	}
	folder := func(variable string, below ...string) string {
		if dir := a.Getenv(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(append([]string{home}, below...)...)
	}
	switch shell {
	case "bash":
		file := filepath.Join(folder("XDG_DATA_HOME", ".local", "share"), "bash-completion", "completions", "trellis")
		if dir := a.Getenv("BASH_COMPLETION_USER_DIR"); filepath.IsAbs(dir) {
			file = filepath.Join(dir, "completions", "trellis")
		}
		return completionPlace{file, "open a new shell; where the package bash-completion is missing, put this into ~/.bashrc: source " + file}, nil
	case "zsh":
		file := filepath.Join(folder("XDG_DATA_HOME", ".local", "share"), "zsh", "site-functions", "_trellis")
		return completionPlace{file, fmt.Sprintf("put this into ~/.zshrc, before compinit: fpath=(%s $fpath)", filepath.Dir(file))}, nil
	default: // fish: Script knows no other shell
		return completionPlace{filepath.Join(folder("XDG_CONFIG_HOME", ".config"), "fish", "completions", "trellis.fish"), ""}, nil
	}
}
