package rest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// How long to wait is what the server says, by its own clock.
func TestPause(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	date := at.Format(http.TimeFormat)
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"nothing said":       {map[string]string{"Date": date}, 0},
		"seconds":            {map[string]string{"Retry-After": "90"}, 90 * time.Second},
		"a date":             {map[string]string{"Date": date, "Retry-After": "Sun, 01 Mar 2026 12:02:00 GMT"}, 2 * time.Minute},
		"a date that passed": {map[string]string{"Date": date, "Retry-After": "Sun, 01 Mar 2026 11:02:00 GMT"}, 0},
		"a time":             {map[string]string{"Date": date, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772370000"}, time.Hour},
		"a time that passed": {map[string]string{"Date": date, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, 0},
		"some are left":      {map[string]string{"Date": date, "X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "1772370000"}, 0},
		"no clock":           {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772370000"}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := pause(&http.Response{Header: h}); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// An answer is taken up to a size, and no more of it is read.
func TestLargeAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.RawQuery)
		chunk := bytes.Repeat([]byte{' '}, 1<<20)
		for left := size; left > 0; left -= len(chunk) {
			if _, err := w.Write(chunk[:min(left, len(chunk))]); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	s := &Server{Name: "GitLab", Base: server.URL}
	var got []byte
	if _, err := s.Do(t.Context(), http.MethodGet, "/all?"+strconv.Itoa(maxAnswer), nil, &got); err != nil || len(got) != maxAnswer {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for _, size := range []int{maxAnswer + 1, 1 << 30} {
		got = nil
		if _, err := s.Do(t.Context(), http.MethodGet, "/all?"+strconv.Itoa(size), nil, &got); err == nil || !strings.Contains(err.Error(), "GitLab answers more than 32 MB to GET /all") || got != nil {
			t.Errorf("%d bytes: got %d of them, %v", size, len(got), err)
		}
	}
}

// A server that asks for no time is asked again after a second all the same, and one that sends elsewhere is not followed there.
func TestAskedAgain(t *testing.T) {
	var at []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			http.Redirect(w, r, "https://"+r.Host+r.URL.Path, http.StatusMovedPermanently)
			return
		}
		if at = append(at, time.Now()); len(at) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	s := &Server{Name: "GitLab", Base: server.URL}
	if _, err := s.Do(t.Context(), http.MethodGet, "/all", nil, nil); err != nil || len(at) != 2 || at[1].Sub(at[0]) < minPause {
		t.Errorf("got %v, asked at %v", err, at)
	}
	_, err := s.Do(t.Context(), http.MethodGet, "/there", nil, nil)
	if want := "it sends elsewhere, to https://" + strings.TrimPrefix(server.URL, "http://"); StatusOf(err) != http.StatusMovedPermanently || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
