package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// chat is a server of one kind that refuses what the real one refuses. Its first answers are those that are queued in say.
type chat struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string // texts of the messages
	head []http.Header
	say  []func(http.ResponseWriter)
}

func newChat(t *testing.T, kind string) *chat {
	c := new(chat)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.say) > 0 {
			c.say[0](w)
			c.say = c.say[1:]
			return
		}
		text, ok := map[string]func([]byte, *http.Request) (string, bool){"slack": readSlack, "discord": readDiscord, "ntfy": readNtfy}[kind](body, r)
		switch {
		case !ok && kind == "slack":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "invalid_payload")
			return
		case !ok:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"message": "invalid", "code": 50006}`)
			return
		case kind == "slack":
			_, _ = io.WriteString(w, "ok")
		case kind == "discord":
			w.WriteHeader(http.StatusNoContent)
		case kind == "ntfy":
			_, _ = io.WriteString(w, `{"id": "x", "event": "message"}`)
		}
		c.got, c.head = append(c.got, text), append(c.head, r.Header)
	}))
	t.Cleanup(c.Close)
	return c
}

func readSlack(body []byte, r *http.Request) (string, bool) {
	var m struct {
		Text   string
		Mrkdwn *bool
		Blocks []struct {
			Type string
			Text struct {
				Type, Text string
				Emoji      bool
			}
		}
	}
	ok := json.Unmarshal(body, &m) == nil && m.Text != "" && !strings.ContainsAny(m.Text, "<>") && m.Mrkdwn != nil && !*m.Mrkdwn && len(m.Blocks) == 1
	if !ok {
		return "", false
	}
	block := m.Blocks[0]
	ok = block.Type == "section" && block.Text.Type == "plain_text" && block.Text.Text != "" && utf8.RuneCountInString(block.Text.Text) <= 3000 && !block.Text.Emoji
	return block.Text.Text, ok && r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json"
}

func readDiscord(body []byte, r *http.Request) (string, bool) {
	var m struct {
		Content  string
		Mentions *struct{ Parse []string } `json:"allowed_mentions"`
	}
	ok := json.Unmarshal(body, &m) == nil && m.Content != "" && utf8.RuneCountInString(m.Content) <= 2000
	return m.Content, ok && m.Mentions != nil && m.Mentions.Parse != nil && len(m.Mentions.Parse) == 0 && r.Header.Get("Content-Type") == "application/json"
}

func readNtfy(body []byte, r *http.Request) (string, bool) {
	for _, values := range r.Header {
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r > 126 || r < 32 }) {
				return "", false
			}
		}
	}
	return string(body), len(body) <= 4096 && utf8.Valid(body) && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer tk_")
}

func (c *chat) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// person returns the settings by which somebody is notified through c, and a function that looks up the variables that they name.
func (c *chat) person(kind string, on ...string) (config.Notify, func(string) string) {
	n := config.Notify{Kind: kind, On: on, URLEnv: "CHAT_URL"}
	if len(on) == 0 {
		n.On = config.Topics
	}
	if kind == "ntfy" {
		n.TokenEnv = "CHAT_TOKEN"
	}
	return n, func(name string) string {
		return map[string]string{"CHAT_URL": c.URL + "/services/T0SECRETPATH", "CHAT_TOKEN": "tk_secrettoken"}[name]
	}
}

var chats = []string{"slack", "discord", "ntfy"}

// Text of agents is text in every kind, and not a ping, markup or a header.
func TestNothingIsMarkup(t *testing.T) {
	hostile := "<!channel> @everyone **b** [x](https://evil.example) <b>&\r\nBcc: x@evil.example\x00\x1b[31m `c` \u202e ü"
	for kind, want := range map[string]string{
		"slack":   "<!channel> @everyone **b** [x](https://evil.example) <b>& Bcc: x@evil.example[31m `c` ü",
		"discord": "\\<\\!channel\\> \\@everyone \\*\\*b\\*\\* \\[x\\]\\(https\\://evil\\.example\\) \\<b\\>& Bcc\\: x\\@evil\\.example\\[31m \\`c\\` ü",
		"ntfy":    "<!channel> @everyone **b** [x](https://evil.example) <b>& Bcc: x@evil.example[31m `c` ü",
	} {
		t.Run(kind, func(t *testing.T) {
			h, c := newHouse(t), newChat(t, kind)
			title, _ := json.Marshal(hostile)
			h.write("task.json", `{"title": `+string(title)+`, "status": "in_progress", "pr_url": "https://git.example/o/r/pull/7", "pipeline": {"revision": 3}}`)
			who, env := c.person(kind)
			n := h.teller(who)
			n.Getenv = env
			h.becomes(n, trellis.Failed)
			n.Close(15 * time.Minute)
			got := c.texts()
			if len(got) != 1 {
				t.Fatalf("got %q\n%s\n%s", got, h.said, h.book())
			}
			if !strings.Contains(got[0], want) {
				t.Errorf("got\n%s\nwant in it\n%s", got[0], want)
			}
			if !strings.Contains(got[0], "https://git.example/o/r/pull/7") {
				t.Errorf("no link to the pull request in\n%s", got[0])
			}
		})
	}
}

// A server that has too much to do is left alone for as long as it asks, and gets the message then; the failure is reported once.
func TestLaterWhenItSaysSo(t *testing.T) {
	for _, kind := range chats {
		t.Run(kind, func(t *testing.T) {
			h, c := newHouse(t), newChat(t, kind)
			c.say = []func(http.ResponseWriter){func(w http.ResponseWriter) {
				if kind != "discord" {
					w.Header().Set("Retry-After", "120")
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"message": "You are being rate limited.", "retry_after": 120.5}`)
			}}
			who, env := c.person(kind)
			n := h.teller(who)
			n.Getenv = env
			h.becomes(n, trellis.Failed)
			n.Close(15 * time.Minute)
			if failing := n.Failing(); len(failing) != 1 || !strings.Contains(failing[0].Error, "429") {
				t.Errorf("failing: %v", failing)
			}
			for wait, want := range map[time.Duration]int{100 * time.Second: 0} {
				h.pass(wait)
				n = h.teller(who)
				n.Getenv = env
				n.StartSending()
				n.Close(15 * time.Minute)
				if got := len(c.texts()); got != want {
					t.Fatalf("after %s: %d messages, want %d", wait, got, want)
				}
			}
			h.pass(21 * time.Second)
			n = h.teller(who)
			n.Getenv = env
			n.StartSending()
			n.Close(15 * time.Minute)
			if got := len(c.texts()); got != 1 || len(n.Failing()) != 0 || len(h.said) != 1 {
				t.Errorf("%d messages, failing %v, said %q\n%s", got, n.Failing(), h.said, h.book())
			}
		})
	}
}

// Tokens and addresses with secret paths are in no book, log or error.
func TestSecretsStaySecret(t *testing.T) {
	for _, kind := range chats {
		h, c := newHouse(t), newChat(t, kind)
		c.say = []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "no service at "+c.URL+"/services/T0SECRETPATH or T0SECRETPATH")
		}}
		who, env := c.person(kind)
		n := h.teller(who)
		n.Getenv = env
		h.becomes(n, trellis.Failed)
		n.Close(15 * time.Minute)
		c.say = []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "T0SECRETPATH")
		}}
		tested := n.Test(context.Background(), who)
		c.Close()
		gone := n.Test(context.Background(), who)
		all := fmt.Sprint(h.book(), h.said, tested, gone, n.Failing())
		if strings.Contains(all, "SECRETPATH") || strings.Contains(all, "secrettoken") || tested == nil || gone == nil || len(h.said) != 1 {
			t.Errorf("%s: %s", kind, all)
		}
	}
}

// If sixty tasks, in a soak 200, end within seconds, a handful of messages name the first and count all, and the watcher does not
// wait for any of them.
func TestStorm(t *testing.T) {
	tasks := 60
	if soak.Asked() {
		tasks = 200
	}
	for _, kind := range chats[:1] {
		t.Run(kind, func(t *testing.T) {
			h, c := newHouse(t), newChat(t, kind)
			who, env := c.person(kind)
			n := h.teller(who)
			n.Getenv = env
			n.StartSending()
			for i := range tasks {
				dir := filepath.Join(h.root, ".trellis", "tasks", fmt.Sprintf("02-02-t%03d", i))
				if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"title": "Task", "status": "in_progress", "pipeline": {"revision": 1}}`), 0o644); err != nil {
					t.Fatal(err)
				}
				to := trellis.Waiting
				if i%4 == 0 {
					to = trellis.Failed
				}
				if _, err := h.store(n).Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.SetFromJournal(to); return nil }); err != nil {
					t.Fatal(err)
				}
				h.pass(20 * time.Millisecond)
			}
			h.until("all told", func() bool {
				h.pass(time.Second)
				n.StartSending()
				return total(c.texts()) >= tasks
			})
			n.Close(15 * time.Minute)
			if got := c.texts(); len(got) > 4 || total(got) != tasks {
				t.Errorf("%d messages of %d tasks:\n%s", len(got), total(got), strings.Join(got, "\n\n"))
			}
		})
	}
}

// total returns the number of tasks that messages report.
func total(texts []string) (sum int) {
	for _, text := range texts {
		title, _, _ := strings.Cut(text, "\n")
		title = strings.ReplaceAll(title, `\`, "")
		var waits, failed int
		if n, _ := fmt.Sscanf(title, "Trellis: %d tasks need you, %d failed", &waits, &failed); n == 0 {
			if n, _ := fmt.Sscanf(title, "Trellis: 1 task needs you, %d failed", &failed); n == 1 {
				waits = 1
			} else if n, _ := fmt.Sscanf(title, "Trellis: %d failed", &failed); n == 0 {
				waits = 1 // one task by its title
			}
		}
		sum += waits + failed
	}
	return sum
}

// A task that comes to the same state again in the same run is reported once; in the next run again.
func TestOnceForEachState(t *testing.T) {
	h, c := newHouse(t), newChat(t, "slack")
	who, env := c.person("slack")
	statuses := []trellis.Status{trellis.Waiting, trellis.InProgress, trellis.Waiting, trellis.Failed, trellis.Ready, trellis.InProgress, trellis.Waiting}
	for i, want := range []int{1, 1, 1, 2, 2, 2, 3} {
		n := h.teller(who)
		n.Getenv = env
		n.Late = true
		h.becomes(n, statuses[i])
		n.Close(15 * time.Minute)
		h.pass(time.Minute)
		if got := len(c.texts()); got != want {
			t.Fatalf("%d: %s: %d messages, want %d\n%s", i, statuses[i], got, want, h.book())
		}
	}
}

// Each step that people have to approve is reported, and once, although a run that is resumed and not approved waits again. That a
// task waits for other tasks is not reported.
func TestEachStepIsTold(t *testing.T) {
	h, c := newHouse(t), newChat(t, "slack")
	who, env := c.person("slack")
	asked := func(step, hash string) notify.Decision { return notify.Decision{Step: step, Hash: hash} }
	for i, now := range []notify.Decision{asked("build", "1"), asked("build", "1"), asked("publish", "1"), asked("publish", "1"), asked("publish", "2"), {Nothing: true}, asked("", ""), asked("", "")} {
		n := h.teller(who)
		n.Getenv, n.Late = env, true
		n.Asks = func(*taskdir.Task) notify.Decision { return now }
		h.becomes(n, trellis.InProgress)
		h.becomes(n, trellis.Waiting)
		n.Close(15 * time.Minute)
		h.pass(time.Minute)
		texts := c.texts()
		if want := []int{1, 1, 2, 2, 3, 3, 4, 4}[i]; len(texts) != want || now.Step != "" && !strings.Contains(texts[want-1], "step: "+now.Step) {
			t.Fatalf("%d: got %q, want %d", i, texts, want)
		}
	}
}

// A message whose answer is lost is not sent again, since it may have arrived.
func TestLostAnswer(t *testing.T) {
	h, c := newHouse(t), newChat(t, "slack")
	lose := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	c.say = []func(http.ResponseWriter){lose}
	who, env := c.person("slack")
	for range 3 {
		n := h.teller(who)
		n.Getenv = env
		if len(h.book()) == 0 {
			h.becomes(n, trellis.Failed)
		}
		n.StartSending()
		n.Close(15 * time.Minute)
		h.pass(time.Hour)
	}
	if got := c.texts(); len(got) != 0 || len(h.said) != 1 {
		t.Errorf("told again: %q, said %q", got, h.said)
	}
}
