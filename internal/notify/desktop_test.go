package notify

import (
	"slices"
	"testing"
)

// Hostile text is an argument of osascript, and never in its script; notify-send gets no option and no markup.
func TestDesktopArguments(t *testing.T) {
	m := message{title: `Trellis: "; do shell script "id`, lines: []string{`--icon=/x <b>\n & 'x'`}}
	want := []string{"osascript", "-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", m.title, m.lines[0]}
	if got := desktopArgv("darwin", m); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want = []string{"notify-send", "--app-name=Trellis", "--urgency=normal", "--", m.title, `--icon=/x &lt;b&gt;\\n &amp; 'x'`}
	if got := desktopArgv("linux", m); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
