package agentstest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// How long opencode takes from the beginning of a call to its first request: in a process of its own, which is how Trellis runs it,
// and with one server for all calls, by a client for each call or by a posted message. The promises of a call are checked as well:
// its last text arrives, nothing that its tools left outlives it, and they have the environment of the call.
func TestOpenCodeStarts(t *testing.T) {
	if !soak.Asked() {
		t.Skip("a minute, for a measurement: TRELLIS_SOAK=1 has it made")
	}
	s := newStarts(t)
	promised := s.measure("a process of its own", s.own)
	server := s.serve()
	s.measure("a client of one server", func() string { return s.attach(server) })
	s.measure("a message to one server", func() string { return s.post(server) })
	if !promised {
		t.Error("a process of its own does not keep what is promised")
	}
}

// starts is a folder, and a model that reports when it was first asked.
type starts struct {
	*testing.T
	env     []string
	dir     string
	config  string // OPENCODE_CONFIG_DIR of the calls
	asked   chan time.Time
	program string
}

const (
	password     = "for-the-server-alone"
	startsMarker = "starts"
)

func newStarts(t *testing.T) *starts {
	s := &starts{T: t, dir: t.TempDir(), asked: make(chan time.Time, 1)}
	model, err := modelserver.New(func(r modelserver.Request) modelserver.Turn {
		if r.Turns > 0 {
			return modelserver.Turn{Text: agentstest.Text}
		}
		s.asked <- time.Now()
		return modelserver.Turn{Calls: []modelserver.Call{modelserver.Shell("env > env.txt; setsid sleep 3000 > /dev/null 2>&1 &")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	s.env = agentstest.RealEnv(t, agents.OpenCode, model.URL)
	s.program = filepath.Join(agentstest.Programs(t, agents.OpenCode), agents.OpenCode)
	settleIn(t, s.env)
	return s
}

// measure makes calls and logs the median of their start times. It reports whether all of them kept what is promised.
func (s *starts) measure(way string, call func() string) bool {
	s.Helper()
	var seconds []float64
	whole, strange, before := 0, 0, agentstest.AtWork(s, startsMarker)
	for range 5 {
		began := time.Now()
		if call() == agentstest.Text {
			whole++
		}
		seconds = append(seconds, (<-s.asked).Sub(began).Seconds())
		if env := get(s.T, s.dir, "env.txt"); !strings.Contains(env, "TRELLIS_ROLE=implement") || strings.Contains(env, password) {
			strange++
		}
	}
	n, left := len(seconds), agentstest.AtWork(s, startsMarker)-before
	slices.Sort(seconds)
	s.Logf("%s: first request after %.1f s (%.1f to %.1f); of %d calls %d gave their last text, %d left a process, %d had the server's environment",
		way, seconds[n/2], seconds[0], seconds[n-1], n, whole, left, strange)
	return whole == n && left+strange == 0
}

func (s *starts) own() string {
	s.Helper()
	a, err := agents.New(agents.OpenCode, agents.Options{Environ: s.env})
	if err != nil {
		s.Fatal(err)
	}
	run := s.TempDir()
	s.config = filepath.Join(run, "opencode")
	res, err := a.Run(s.Context(), agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: s.dir, Permission: trellis.PermitEdit,
		RunDir: run, Marker: startsMarker, Env: []string{"TRELLIS_ROLE=implement"}}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return res.Text
}

// serve starts a server, with the agent definition of an earlier call, and returns its address.
func (s *starts) serve() (url string) {
	s.Helper()
	s.env = append(s.env, "OPENCODE_CONFIG_DIR="+s.config, "OPENCODE_SERVER_PASSWORD="+password, "OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=http://127.0.0.1:1/")
	out, in := io.Pipe()
	p, err := proc.Start(s.Context(), proc.Command{Argv: []string{s.program, "serve", "--hostname", "127.0.0.1", "--port", "0"}, Dir: s.dir, Env: s.env, Stdout: in, Marker: startsMarker})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.Stop(nil)
		out.Close()
		if _, err := p.Wait(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		_, url, _ = strings.Cut(lines.Text(), "listening on ")
	}
	return url
}

func (s *starts) attach(url string) string {
	s.Helper()
	var out bytes.Buffer
	res, err := proc.Run(s.Context(), proc.Command{Argv: []string{s.program, "run", "--attach", url, "--format", "json", "--title", "x", "--dir", s.dir, "--agent", "trellis"},
		Dir: s.dir, Env: append(s.env, "TRELLIS_ROLE=implement"), Stdin: strings.NewReader("do it"), Stdout: &out, Marker: startsMarker})
	if err != nil || res.Code != 0 {
		s.Fatalf("%+v, %v", res, err)
	}
	if strings.Contains(out.String(), agentstest.Text) {
		return agentstest.Text
	}
	return ""
}

func (s *starts) post(url string) string {
	s.Helper()
	var session struct{ ID string }
	s.ask(url+"/session", `{"title": "x"}`, &session)
	var answer struct{ Parts []struct{ Text string } }
	s.ask(fmt.Sprintf("%s/session/%s/message", url, session.ID), `{"agent": "trellis", "parts": [{"type": "text", "text": "do it"}]}`, &answer)
	for _, p := range answer.Parts {
		if p.Text == agentstest.Text {
			return p.Text
		}
	}
	return ""
}

func (s *starts) ask(url, body string, answer any) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Opencode-Directory", s.dir)
	r.SetBasicAuth("opencode", password)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		s.Fatal(err)
	}
}
