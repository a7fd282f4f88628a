// Package editor lets a person change a text in the editor of their choice.
package editor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// Draft is a text that a person changes, in a separate file. Only Discard deletes it.
type Draft struct {
	a         *command.Console
	path      string
	text      []byte // the initial text
	mayBeOpen bool   // an editor that did not wait may still have it open
}

// Open creates a draft of a text. name is the name of its file, from which editors tell its kind.
func Open(a *command.Console, name string, text []byte) (*Draft, error) {
	dir, err := os.MkdirTemp("", "trellis-edit-")
	if err != nil {
		return nil, fmt.Errorf("making a draft: %w", err)
	}
	d := &Draft{a: a, path: filepath.Join(dir, name), text: text}
	if err := a.Disk.WriteFile(d.path, text, 0o600); err != nil {
		return nil, fmt.Errorf("making a draft: %w", err)
	}
	return d, nil
}

// Path returns the path of the draft.
func (d *Draft) Path() string { return d.path }

// editorCommand returns the command line of the editor, for a shell, and what chose that editor.
func (d *Draft) editorCommand() (program, by string) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if program = d.a.Getenv(name); program != "" {
			return program, "$" + name
		}
	}
	return "vi", "as neither $VISUAL nor $EDITOR is set"
}

// Edit runs the editor on the draft and returns the text. The editor is $VISUAL, $EDITOR or vi,
// which a message then says. After an error the draft holds what the editor left.
func (d *Draft) Edit() ([]byte, error) {
	program, by := d.editorCommand()
	if !strings.HasPrefix(by, "$") {
		if d.a.Caller().LookPath(program) != nil {
			return nil, app.WithHints(app.Usagef("no editor is set, and there is no vi"), "export EDITOR=nano, or another, and try again")
		}
		d.a.Say("the editor is vi, %s", by)
	}
	cmd := exec.Command("/bin/sh", "-c", program+` "$@"`, program, d.path)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.a.Dir, d.a.Env, d.a.Stdin, command.RawOutput(d.a.Stdout), d.a.Stderr
	var ended *exec.ExitError
	began := time.Now()
	switch err := cmd.Run(); {
	case errors.As(err, &ended):
		return nil, d.editorError(fmt.Sprintf("the editor (%s, %s) failed: %v", program, by, ended))
	case err != nil:
		return nil, app.Usagef("running the editor (%s, %s): %w", program, by, err)
	}
	text, err := durable.Read(d.path, durable.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	if d.mayBeOpen = bytes.Equal(text, d.text) && time.Since(began) < minEditTime; d.mayBeOpen {
		d.a.Say("the editor (%s, %s) returned at once and changed nothing; what is saved there later is in %s", program, by, d.path)
		d.a.Say("next: have it wait, as with EDITOR='code --wait', and try again")
	}
	return text, nil
}

// editorError returns the error of an editor that failed. It keeps the draft only if that differs from the initial text.
func (d *Draft) editorError(how string) error {
	if left, err := durable.Read(d.path, durable.MaxDocument); err == nil && bytes.Equal(left, d.text) && d.Discard() == nil {
		return app.Usagef("%s; nothing was changed", how)
	}
	return app.Usagef("%s; what it left is in %s", how, d.path)
}

// minEditTime is the time within which an editor returns that does not wait until the person is done.
const minEditTime = time.Second

// Discard removes the draft, unless an editor may still have it open. It is called once the text is
// stored where it belongs, or not wanted.
func (d *Draft) Discard() error {
	if d.mayBeOpen {
		return nil
	}
	if err := os.RemoveAll(filepath.Dir(d.path)); err != nil {
		return fmt.Errorf("removing the draft: %w", err)
	}
	return nil
}
