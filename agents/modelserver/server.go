// Package modelserver implements a model for tests: a server on loopback that speaks four of the protocols that agent programs
// use for models (OpenAI chat completions, OpenAI responses, Anthropic messages and Gemini's). A script, which is a Go function,
// decides what it answers.
//
// The script gets one request and returns one turn. The request holds all that it needs to decide: the user's prompt and the
// number of turns that the model has taken since. A script without state of its own gives the same answers after retries, resumed
// sessions and restarts, and to any number of clients at once.
package modelserver

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Script decides what the model does. It is called from several goroutines at once.
type Script func(Request) Turn

// Server is a running model. Its URL has no path; clients of OpenAI protocols append /v1.
type Server struct {
	URL string

	script     Script
	http       *http.Server
	closing    chan struct{}
	close      sync.Once
	turns      atomic.Int64
	mu         sync.Mutex
	requests   []Request
	used       Usage
	unanswered []string
}

// New starts a server on a free loopback port.
func New(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String(), script: script, closing: make(chan struct{})}
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(l) //nolint:errcheck // always ErrServerClosed
	return s, nil
}

// Close closes all connections, including those that hang.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closing)
		s.http.Close()
	})
}

// Requests returns the requests for a turn so far, in order of arrival. Requests that the server answers without the script, such
// as those for titles, are left out.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Used returns the total usage of the turns that were answered in full.
func (s *Server) Used() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *Server) addUsage(u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = Usage{s.used.Input + u.Input, s.used.Output + u.Output, s.used.Cached + u.Cached, s.used.Written + u.Written}
}

// Strange returns method and path of the requests for which the server has no answer.
func (s *Server) Strange() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.unanswered...)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range []protocol{chat{}, responses{}, messages{}} {
		mux.HandleFunc("POST "+p.path(), func(w http.ResponseWriter, r *http.Request) { s.serveTurn(p, w, r) })
	}
	mux.HandleFunc("POST "+generate{}.path(), func(w http.ResponseWriter, r *http.Request) {
		model, method, _ := strings.Cut(r.PathValue("call"), ":")
		switch method {
		case "generateContent", "streamGenerateContent":
			s.serveTurn(generate{model, method == "streamGenerateContent"}, w, r)
		case "countTokens":
			body, _ := io.ReadAll(r.Body)
			writeJSON(w, http.StatusOK, object{"totalTokens": len(body) / 4})
		default:
			s.handleUnknown(w, r)
		}
	})
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		writeJSON(w, http.StatusOK, object{"input_tokens": len(body) / 4})
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{}, "models": []any{}, "has_more": false})
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/", s.handleUnknown)
	return mux
}

func (s *Server) handleUnknown(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.unanswered = append(s.unanswered, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	http.NotFound(w, r)
}

// protocol is a protocol for talking to a model.
type protocol interface {
	path() string
	parse(body []byte) (Request, error)
	events(r Request, t Turn) []event // the events for a streaming client, in order
	body(r Request, t Turn) any       // the body for a client that does not stream
	errorBody(f Fail) any             // the body of an error response
}

// event is one server-sent event. An empty name is omitted.
type event struct {
	name string
	data any // a string is sent unchanged, any other value as JSON
}

func (s *Server) serveTurn(p protocol, w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	r, err := p.parse(body)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, p.errorBody(Fail{Status: 400, Message: err.Error()}))
		return
	}
	r.Raw, r.Header, r.id = body, hr.Header, strconv.FormatInt(s.turns.Add(1), 10)
	t, own := builtinTurn(r)
	if !own {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		t = s.script(r)
		if t.Fail == nil && !t.Garbage && !t.Hang && !t.Cut {
			s.addUsage(t.usage())
		}
	}
	s.sendTurn(p, w, hr, r, t)
}

func (s *Server) sendTurn(p protocol, w http.ResponseWriter, hr *http.Request, r Request, t Turn) {
	if !s.waitDelay(hr, t.Delay) {
		return
	}
	switch {
	case t.Fail != nil:
		sendFailure(p, w, *t.Fail)
	case t.Garbage:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>\xff\xfe not a model {\"choices\": 7") //nolint:errcheck // the client is gone
	case !r.Stream && t.Hang:
		s.hang(hr)
	case !r.Stream && t.Cut:
		panic(http.ErrAbortHandler)
	case !r.Stream:
		writeJSON(w, http.StatusOK, p.body(r, t))
	default:
		s.sendEvents(w, hr, p.events(r, t), t)
	}
}

// sendEvents streams a turn. A turn that hangs or is cut stops halfway.
func (s *Server) sendEvents(w http.ResponseWriter, hr *http.Request, events []event, t Turn) {
	w.Header().Set("Content-Type", "text/event-stream")
	half := len(events) / 2
	if sendAll(w, events[:half], t.Half) != nil {
		return
	}
	switch {
	case t.Hang:
		s.hang(hr)
	case t.Cut:
		panic(http.ErrAbortHandler) // closes the connection without a proper end
	case sendAll(w, events[half:], t.Sent) == nil && t.Stay:
		s.hang(hr)
	}
}

// sendAll sends and flushes events, then calls then, which may be nil.
func sendAll(w http.ResponseWriter, events []event, then func()) error {
	for _, e := range events {
		if err := e.send(w); err != nil {
			return err
		}
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	if then != nil {
		then()
	}
	return nil
}

// hang blocks until the client gives up or the server is closed, and then aborts the connection.
func (s *Server) hang(hr *http.Request) {
	select {
	case <-hr.Context().Done():
	case <-s.closing:
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) waitDelay(hr *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-hr.Context().Done():
	case <-s.closing:
	}
	return false
}

// builtinTurn answers requests that a script should not have to handle: that of a client for a title in its list of sessions, and
// that after a structured answer was handed in.
func builtinTurn(r Request) (Turn, bool) {
	switch {
	case len(r.Tools) == 0 && strings.Contains(r.System, "title generator"):
		return Turn{Text: "Scripted"}, true
	case r.answerAccepted:
		return Turn{Text: "Handed in."}, true
	}
	return Turn{}, false
}
