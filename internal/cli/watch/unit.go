package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// service is a watcher that the system starts, and starts again when it fails.
type service struct {
	Name string   // unlike those for other repositories
	Root string   // the main checkout
	Args []string // program, command, flags
	Path string   // PATH, in which agents are found
}

// printUnit prints a service for this system that watches the project with the flags of this call.
func printUnit(a *command.Console, c *cli.Context, p *app.Project) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	s := service{Name: serviceName(p.Root), Root: p.Root, Args: append([]string{self, "watch"}, command.GivenFlags(c, "parallel", "rescan", "log-level", "poll", "objectives", "shared", "shared-fs", "json")...), Path: a.Getenv("PATH")}
	for _, word := range append([]string{s.Root, s.Path}, s.Args...) {
		if strings.ContainsFunc(word, unicode.IsControl) || !utf8.ValidString(word) {
			return app.Usagef("%q can't be in a service file: it contains a control character or is not UTF-8", word)
		}
	}
	if runtime.GOOS == "darwin" {
		return s.launchd(a.Stdout)
	}
	return s.systemd(a.Stdout)
}

// serviceName returns trellis-<folder>-<hash of the path>: letters, digits and single dashes.
func serviceName(root string) string {
	words := trellis.Words(filepath.Base(root))
	sum := sha256.Sum256([]byte(root))
	return strings.Join(append(append([]string{"trellis"}, words...), hex.EncodeToString(sum[:3])), "-")
}

// systemd prints a user unit. Only the guard gets SIGTERM: it has the worker end its agents in
// order. What is left after TimeoutStopSec is killed.
func (s service) systemd(w io.Writer) error {
	words := s.Args
	if strings.ContainsAny(words[0], `"'\`) { // systemd allows none of them in the name of a program
		words = append([]string{"/bin/sh", "-c", `exec "$0" "$@"`}, words...)
	}
	argv := []string{quoteUnit(words[0])} // systemd expands no $ in the program
	for _, word := range words[1:] {
		argv = append(argv, quoteUnit(strings.ReplaceAll(word, "$", "$$")))
	}
	_, err := fmt.Fprintf(w, `# Trellis watches %[1]s.
# Save this as ~/.config/systemd/user/%[2]s.service, then:
#   systemctl --user daemon-reload
#   systemctl --user enable --now %[2]s
#   loginctl enable-linger          to have it run while you are not logged in
# trellis status shows how it is, and journalctl --user -u %[2]s
[Unit]
Description=Trellis in %[3]s

[Service]
WorkingDirectory=%[4]s
Environment=%[5]s
# Keys that agents need and have nowhere else, one NAME=value a line; readable by you alone:
EnvironmentFile=-%%h/.config/%[2]s.env
ExecStart=%[6]s
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=15
# 130 and 143: somebody ended it. 2: a person has to fix something first.
SuccessExitStatus=130 143
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=default.target
`, s.Root, s.Name, escapeSpecifiers(s.Root), unitFolder(s.Root), quoteUnit("PATH="+s.Path), strings.Join(argv, " "))
	return err
}

// escapeSpecifiers escapes %, so that systemd does not replace %h and other specifiers.
func escapeSpecifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// quoteUnit quotes a word of a unit's command line or environment.
func quoteUnit(word string) string {
	return `"` + escapeSpecifiers(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word)) + `"`
}

// unitFolder returns a path for a setting that takes the rest of its line unquoted: spaces at its
// end would be cut, and a backslash there would join the next line.
func unitFolder(path string) string {
	if strings.HasSuffix(path, " ") || strings.HasSuffix(path, `\`) {
		path += "/"
	}
	return escapeSpecifiers(path)
}

func (s service) launchd(w io.Writer) error {
	label := "tasks." + s.Name
	var b strings.Builder
	text := func(tag, value string) {
		b.WriteString("<" + tag + ">")
		xml.EscapeText(&b, []byte(value)) // a Builder can't fail
		b.WriteString("</" + tag + ">\n")
	}
	key := func(name, tag, value string) {
		text("key", name)
		text(tag, value)
	}
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Save this as ~/Library/LaunchAgents/%[1]s.plist, then:
       launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/%[1]s.plist
     It ends with:
       launchctl bootout gui/$(id -u)/%[1]s
     trellis status shows how it is, and so does the log that is named below. -->
<plist version="1.0">
<dict>
`, label)
	key("Label", "string", label)
	b.WriteString("<key>ProgramArguments</key>\n<array>\n")
	for _, word := range s.Args {
		text("string", word)
	}
	b.WriteString("</array>\n")
	key("WorkingDirectory", "string", s.Root)
	b.WriteString("<key>EnvironmentVariables</key>\n<dict>\n")
	key("PATH", "string", s.Path)
	b.WriteString("</dict>\n<key>RunAtLoad</key>\n<true/>\n<key>KeepAlive</key>\n<dict>\n<key>SuccessfulExit</key>\n<false/>\n</dict>\n")
	key("ThrottleInterval", "integer", strconv.Itoa(15))
	key("ExitTimeOut", "integer", strconv.Itoa(30))
	log := filepath.Join(s.Root, ".trellis", ".runtime", "watch.log")
	key("StandardOutPath", "string", log)
	key("StandardErrorPath", "string", log)
	b.WriteString("</dict>\n</plist>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
