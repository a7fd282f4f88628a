//go:build linux

package notify_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// screen shows notifications, like the notification server of a desktop.
type screen struct{ shown chan [3]string }

func (s screen) Notify(app string, _ uint32, _, title, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	s.shown <- [3]string{app, title, body}
	return 1, nil
}

func (screen) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"body", "body-markup"}, nil
}

func (screen) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "test", "trellis", "1", "1.2", nil
}

// The real notify-send shows a message on a private bus, and no markup in it.
func TestOnTheScreen(t *testing.T) {
	for _, program := range []string{"notify-send", "dbus-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s: make setup installs it", program)
		}
	}
	bus := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address")
	out, err := bus.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = bus.Process.Kill()
		_ = bus.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := screen{make(chan [3]string, 1)}
	if err := conn.Export(s, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	title, _ := json.Marshal(`--help <b>x</b> \n é`)
	h.write("task.json", `{"title": `+string(title)+`, "branch": "a&b<i>", "status": "in_progress", "pipeline": {"revision": 3}}`)
	n := h.teller(config.Notify{Kind: "desktop", On: []string{"failed"}})
	n.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+address)
	h.becomes(n, trellis.Failed)
	n.Close(15 * time.Minute)
	select {
	case got := <-s.shown:
		if got[0] != "Trellis" || got[1] != `Trellis: --help <b>x</b> \n é: failed` || !strings.Contains(got[2], "***\n") || strings.Contains(got[2], "<") {
			t.Errorf("got %q", got)
		}
	default:
		t.Fatalf("nothing was shown: %s\n%s", h.said, h.book())
	}
}
