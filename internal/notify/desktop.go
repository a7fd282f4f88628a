package notify

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// desktop shows a message on the screen of the person who runs the watcher.
type desktop struct{}

func (desktop) send(ctx context.Context, n *Notifier, m message) error {
	stderr := proc.NewCapped(500)
	err := proc.RunSuccessfully(ctx, proc.Command{Argv: desktopArgv(runtime.GOOS, m), Dir: n.Root, Env: n.Env, Stderr: stderr, Wall: hookTimeout, Grace: time.Second})
	if err != nil && strings.TrimSpace(stderr.String()) != "" {
		err = errors.New(err.Error() + ": " + plainLine(stderr.String(), 200))
	}
	return err
}

// desktopArgv returns the command that shows a message. Text is passed as arguments, never in a script. notify-send interprets
// backslashes in the body, and the notification server may interpret markup.
func desktopArgv(system string, m message) []string {
	title, body := truncate(m.title, 200), truncate(m.body(), 800)
	if system == "darwin" {
		return []string{"osascript", "-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, body}
	}
	urgency := "normal"
	if m.urgent {
		urgency = "critical"
	}
	body = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(body)
	return []string{"notify-send", "--app-name=Trellis", "--urgency=" + urgency, "--", title, body}
}
