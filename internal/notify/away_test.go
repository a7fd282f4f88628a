package notify_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A webhook that hangs does not delay the others, not even for messages that come while it hangs.
func TestHangingBesideAGoodOne(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	end, asked := make(chan struct{}), new(atomic.Int32)
	hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client is gone
		asked.Add(1)
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(end)
	on := []string{"failed", "ready", "review"}
	n := h.teller(config.Notify{On: on, Webhook: hangs.URL}, s.hook(on...))
	h.becomes(n, trellis.Failed)
	h.until("the one that hangs", func() bool { return asked.Load() == 1 })
	h.becomes(n, trellis.Ready)
	h.becomes(n, trellis.Review)
	h.until("all news", func() bool { return s.count() == 3 })
	if asked.Load() != 1 {
		t.Errorf("the one that hangs was asked %d times at once", asked.Load())
	}
	begin := time.Now()
	n.Close(0)
	if took := time.Since(begin); took > 2*time.Minute {
		t.Errorf("the end took %v", took)
	}
}

// A webhook that can't be reached for one message gets no others until it is back, and then gets them in order.
func TestLeftAloneWhileAway(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	place := s.Listener.Addr().String()
	s.Server.Close()
	hook := s.hook("failed", "ready", "review")
	n := h.teller(hook)
	n.Late = true
	for _, status := range []trellis.Status{trellis.Failed, trellis.Ready, trellis.Review} {
		h.becomes(n, status)
	}
	n.Late = false
	n.StartSending()
	n.Close(15 * time.Minute)
	if tries := strings.Count(h.book(), `"away":true`); tries != 1 {
		t.Errorf("tried %d times while nobody was there\n%s", tries, h.book())
	}
	back, err := net.Listen("tcp", place)
	if err != nil {
		t.Skipf("the address is taken: %v", err)
	}
	again := &http.Server{Handler: s.Config.Handler}
	defer again.Close()
	go func() { _ = again.Serve(back) }()
	h.pass(time.Minute)
	n = h.teller(hook)
	n.StartSending()
	n.Close(15 * time.Minute)
	var got []string
	for _, text := range s.got {
		_, rest, _ := strings.Cut(text, "02-01-auth@")
		got = append(got, rest[2:4])
	}
	if want := []string{"fa", "re", "re"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q\n%s", got, want, h.book())
	}
}

// A message that a webhook did not answer, though it may have got it, is sent again with the same key.
func TestNoAnswer(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	answering := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering.ServeHTTP(httptest.NewRecorder(), r)
		if s.count() == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	n := h.teller(s.hook("failed"))
	h.becomes(n, trellis.Failed)
	h.until("a try", func() bool { return strings.Contains(h.book(), `"hook"`) })
	h.pass(time.Minute)
	n.StartSending()
	n.Close(15 * time.Minute)
	if len(s.got) != 2 || s.got[0] != s.got[1] || strings.Count(h.book(), `"away":true`) != 1 {
		t.Errorf("got %q\n%s", s.got, h.book())
	}
}
