package board_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/board"
)

func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	for _, test := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"the key", "GET", "/v/", nil, 200},
		{"localhost", "GET", "/v/", host("localhost:" + port), 200},
		{"no key", "GET", "/v/", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"a wrong key", "GET", "/v/", header("Authorization", "Bearer "+strings.Repeat("A", len(key))), 401},
		{"a part of the key", "GET", "/v/", header("Authorization", "Bearer "+key[:len(key)-1]), 401},
		{"the key without a scheme", "GET", "/v/", header("Authorization", key), 401},
		{"the scheme in small letters", "GET", "/v/", header("Authorization", "bearer "+key), 200},
		{"an empty key", "GET", "/v/", header("Authorization", "Bearer "), 401},
		{"another way to sign in", "GET", "/v/", header("Authorization", "Basic "+key), 401},
		{"the key in the query", "GET", "/v/?key=" + key, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"numbers", "GET", "/metrics", nil, 200},
		{"numbers without a key", "GET", "/metrics", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"numbers with a wrong key", "GET", "/metrics", header("Authorization", "Bearer "+strings.Repeat("A", len(key))), 401},
		{"numbers by another name", "GET", "/metrics", host("attacker.example:" + port), 421},
		{"numbers for another site", "GET", "/metrics", header("Sec-Fetch-Site", "cross-site"), 403},
		{"what is below the numbers", "GET", "/metrics/x", nil, 404},
		{"a name that was led here", "GET", "/v/", host("attacker.example:" + port), 421},
		{"the shell by that name", "GET", "/", host("attacker.example:" + port), 421},
		{"without a port", "GET", "/v/", host("127.0.0.1"), 421},
		{"another port", "GET", "/v/", host("127.0.0.1:1"), 421},
		{"a dot behind it", "GET", "/v/", host("localhost.:" + port), 421},
		{"a form of another site", "POST", "/v/do/cancel/02-01-hello", header("Sec-Fetch-Site", "cross-site"), 403},
		{"a form of another port", "POST", "/v/do/cancel/02-01-hello", header("Sec-Fetch-Site", "same-site"), 403},
		{"a form by its origin", "POST", "/v/do/cancel/02-01-hello", header("Origin", "http://attacker.example"), 403},
		{"a form of null", "POST", "/v/do/cancel/02-01-hello", header("Origin", "null"), 403},
		{"read by another site", "GET", "/v/", header("Sec-Fetch-Site", "cross-site"), 403},
		{"another method", "DELETE", "/v/task/02-01-hello", nil, 405},
		{"a task that there is not", "GET", "/v/task/none", nil, 404},
		{"a path that climbs", "GET", "/v/task/..%2f..", nil, 404},
		{"a file that climbs", "GET", "/v/task/02-01-hello/files/..%2f..%2fconfig.yaml", nil, 404},
		{"a file outside", "GET", "/v/task/02-01-hello/files/%2fetc%2fpasswd", nil, 404},
		{"a file of a run", "GET", "/v/task/02-01-hello/files/run/journal.jsonl", nil, 404},
		{"an order that there is not", "POST", "/v/do/rm/02-01-hello", nil, 404},
		{"a folder of what pages are made of", "GET", "/static/", nil, 404},
		{"beside what pages are made of", "GET", "/static/..%2fpages%2fshell.html", nil, 404},
	} {
		got, body := w.ask(test.method, test.path, test.change)
		if got != test.want {
			t.Errorf("%s: got %d, want %d: %s", test.name, got, test.want, body)
		}
		if test.want != 200 && strings.Contains(body, "Say hello") {
			t.Errorf("%s: what is refused tells of a task: %s", test.name, body)
		}
	}
	if text := w.Read(".trellis/tasks/02-01-hello/task.json"); !strings.Contains(text, "waiting") {
		t.Errorf("the task was changed: %s", text)
	}
}

func TestShellHoldsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	for _, path := range []string{"/", "/task/02-01-hello", "/task/02-01-hello/log", "/plan", "/objectives", "/stats"} {
		code, body := w.ask("GET", path, func(r *http.Request) { r.Header.Del("Authorization") })
		if code != 200 || strings.Contains(body, "02-01-hello") || strings.Contains(body, "hello") || strings.Contains(body, key) {
			t.Errorf("%s: got %d, want a page without a word of the tasks: %s", path, code, body)
		}
	}
}

// Requests with a wrong key are limited, and those with the right key are not.
func TestWrongKeysAreLimited(t *testing.T) {
	w := newWorld(t, nil).serve()
	codes := map[int]int{}
	for range 50 {
		code, _ := w.ask("GET", "/v/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") })
		codes[code]++
	}
	if codes[401] != 20 || codes[429] != 30 {
		t.Errorf("got %v, want 20 times 401 and 30 times 429", codes)
	}
	if code, _ := w.ask("GET", "/v/", nil); code != 200 {
		t.Errorf("with the key: got %d, want 200", code)
	}
}

func TestReadOnly(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.o.ReadOnly = true
	w.serve()
	for _, path := range []string{"/v/do/cancel/02-01-hello", "/v/do/approve/02-01-hello", "/v/plan", "/v/task/02-01-hello/files/prd.md"} {
		if code, _ := w.ask("POST", path, nil, "text=x"); code != 403 {
			t.Errorf("%s: got %d, want 403", path, code)
		}
	}
	if _, body := w.ask("GET", "/v/task/02-01-hello", nil); strings.Contains(body, "<button") || !strings.Contains(body, "Say hello") {
		t.Errorf("got a page with buttons, or without the task: %s", body)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		a    board.Address
		want string // of the error; "": none
	}{
		{board.Address{Bind: "127.0.0.1"}, ""},
		{board.Address{Bind: "::1"}, ""},
		{board.Address{Bind: "0.0.0.0"}, "not a loopback address"},
		{board.Address{Bind: "localhost"}, "is not an address"},
		{board.Address{Bind: "0.0.0.0", Remote: true}, "needs TLS"},
		{board.Address{Bind: "0.0.0.0", Remote: true, Cert: "c"}, "go together"},
		{board.Address{Bind: "0.0.0.0", Remote: true, Cert: "c", Key: "k"}, ""},
		{board.Address{Bind: "0.0.0.0", Remote: true, Proxy: "http://board.example"}, "not an address of a proxy"},
		{board.Address{Bind: "127.0.0.1", Proxy: "https://board.example"}, "--allow-remote"},
		{board.Address{Bind: "127.0.0.1", Remote: true, Proxy: "https://board.example"}, ""},
	} {
		err := test.a.Check()
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: got %v, want %q", test.a, err, test.want)
		}
	}
}

func TestPortIsTaken(t *testing.T) {
	w := newWorld(t, nil).serve()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	o := w.o
	if n, err := net.LookupPort("tcp", port); err == nil {
		o.Address.Port = n
	}
	err := board.Serve(t.Context(), w.p, o)
	if !errors.Is(err, app.ErrUsage) || len(app.HintsOf(err)) != 1 || !strings.HasPrefix(app.HintsOf(err)[0], "trellis board --port ") {
		t.Errorf("got %v with %v, want a usage error with the command that takes another port", err, app.HintsOf(err))
	}
}
