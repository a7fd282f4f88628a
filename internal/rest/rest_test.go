package rest

import (
	"net/http"
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
