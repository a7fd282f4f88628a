package notify_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// watcherToKill sets the status of a house's task, prints so, and blocks until it is killed, its message unsent or being sent.
func watcherToKill(root string) {
	n := &notify.Notifier{Root: root, Redact: func(s string) string { return s }, Now: time.Now, Getenv: os.Getenv}
	n.Configure([]config.Notify{{Kind: "slack", On: config.Topics, URLEnv: "CHAT_URL"}})
	_, err := taskdir.Store{Root: root, Changed: n.RecordChange}.Update(filepath.Join(root, ".trellis", "tasks", "02-01-auth"), func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.SetFromJournal(trellis.Failed)
		return nil
	})
	fmt.Println("written", err)
	select {}
}

// If a watcher is killed between the change and its message, the next one sends the message once; if it is killed while a message
// is being sent, nobody sends it again, since it may have arrived.
func TestKilledWatcherTellsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		underWay bool
		want     int
	}{"before": {false, 1}, "under way": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			h, s := newHouse(t), newChat(t, "slack")
			asked, let := make(chan struct{}), make(chan struct{})
			if c.underWay {
				s.mu.Lock()
				s.say = []func(http.ResponseWriter){func(http.ResponseWriter) { close(asked); <-let }}
				s.mu.Unlock()
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "NOTIFY_TEST_CHILD="+h.root, "CHAT_URL="+s.URL+"/services/T0SECRETPATH")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 100)
			k, _ := out.Read(line)
			if c.underWay {
				<-asked // after batchDelay
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			close(let)
			if !strings.HasPrefix(string(line[:k]), "written <nil>") {
				t.Fatalf("the child said %q", line[:k])
			}
			who, env := s.person("slack")
			for range 2 {
				h.pass(time.Minute)
				n := h.teller(who)
				n.Getenv = env
				task, err := h.store(n).Load(h.dir)
				if err != nil {
					t.Fatal(err)
				}
				n.CheckChange(task)
				n.StartSending()
				n.Close(15 * time.Minute)
			}
			if got := s.texts(); len(got) != c.want || c.underWay && len(h.said) != 1 {
				t.Errorf("%d messages, want %d; said %q\n%s", len(got), c.want, h.said, h.book())
			}
		})
	}
}

// For each budget that is nearly used up, a message is sent once a day, and once in a run of a task; for a stopped watcher, once.
func TestOccasions(t *testing.T) {
	h, s := newHouse(t), newChat(t, "slack")
	who, env := s.person("slack")
	cost := func(usd float64) trellis.Usage { return trellis.Usage{CostUSD: &usd} }
	limits := config.Limits{DayCostUSD: 10, DayTokens: 5000, Tokens: 1000, Seconds: 100}
	steps := []struct {
		do   func(*notify.Notifier, *taskdir.Task)
		want string // "" if nothing is sent
	}{
		{func(n *notify.Notifier, k *taskdir.Task) { n.RecordUsage(k, cost(7.9), limits) }, ""},
		{func(n *notify.Notifier, k *taskdir.Task) { n.RecordUsage(k, cost(8), limits) }, "80 % used\n$8.00 of $10.00"},
		{func(n *notify.Notifier, k *taskdir.Task) { n.RecordUsage(k, cost(9), limits) }, ""},
		{func(n *notify.Notifier, k *taskdir.Task) {
			k.Pipeline.Usage.InputTokens = 800
			n.RecordUsage(k, cost(9), limits)
		}, "budget of Log in: 80 % used\n800 of 1000 tokens"},
		{func(n *notify.Notifier, k *taskdir.Task) {
			k.Pipeline.Usage.InputTokens = 900
			n.RecordUsage(k, cost(9), limits)
		}, ""},
		{func(n *notify.Notifier, k *taskdir.Task) {
			k.Pipeline.Usage.InputTokens, k.Pipeline.Usage.Seconds = 900, 80
			n.RecordUsage(k, cost(9), limits)
		}, "budget of Log in: 80 % used\n1m20s of 1m40s of agents' time"},
		{func(n *notify.Notifier, k *taskdir.Task) {
			k.Pipeline.Usage.InputTokens, k.Pipeline.Usage.Seconds = 950, 90
			u := cost(9.5)
			u.InputTokens = 4000
			n.RecordUsage(k, u, limits)
		}, "80 % used\n4000 of 5000 tokens"},
		{func(n *notify.Notifier, k *taskdir.Task) {
			k.Pipeline.Usage.InputTokens, k.Pipeline.Usage.Seconds = 950, 90
			u := cost(9.5)
			u.InputTokens = 4500
			n.RecordUsage(k, u, limits)
		}, ""},
		{func(n *notify.Notifier, _ *taskdir.Task) { n.WatcherStopped(h.now, "hunter22 died") }, "the watcher: stopped\n*** died"},
		{func(n *notify.Notifier, _ *taskdir.Task) { n.WatcherStopped(h.now, "hunter22 died") }, ""},
	}
	for i, step := range steps {
		n := h.teller(who)
		n.Getenv = env
		task, err := h.store(n).Load(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.texts())
		step.do(n, task)
		n.Close(15 * time.Minute)
		if got := strings.Join(s.texts()[before:], "\n\n"); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("%d: got %q, want %q\n%s", i, got, step.want, h.book())
		}
		if i < 8 {
			h.pass(time.Minute)
		}
	}
}
