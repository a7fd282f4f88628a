package traces

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// sender sends spans to a collector.
type sender struct {
	Settings
	version string
	once    sync.Once
	client  *http.Client
}

// refusedError is an answer that does not get better by asking again.
type refusedError struct{ says string }

func (e *refusedError) Error() string { return e.says }

// How often a request is made that fails for a passing reason, and how long it waits in between at least and at most.
const (
	tries   = 4
	pause   = time.Second
	longest = 30 * time.Second
)

// send sends spans, and again when that fails for a passing reason. Once over is closed nothing is tried again.
func (s *sender) send(ctx context.Context, over <-chan struct{}, spans []span) error {
	body, err := s.encode(s.version, spans)
	if err != nil {
		return &refusedError{err.Error()}
	}
	wait := pause
	for try := 1; ; try++ {
		after, err := s.post(ctx, body)
		if _, refused := err.(*refusedError); err == nil || refused || try == tries {
			return err
		}
		timer := time.NewTimer(min(max(wait, after), longest))
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait *= 2
	}
}

// post makes one request. after is how long the collector wants to be left alone.
func (s *sender) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, &refusedError{"the endpoint is not an address"}
	}
	req.Header = s.Headers.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trellis/"+s.version)
	res, err := s.http().Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s does not answer: %w", req.URL.Host, inner(err))
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what is cut off says nothing
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(res.Header.Get("Retry-After")), fmt.Errorf("%s answers %s", req.URL.Host, res.Status)
	}
	if res.StatusCode/100 != 2 {
		return 0, &refusedError{fmt.Sprintf("%s answers %s", req.URL.Host, res.Status)}
	}
	var part struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // a string, mostly
		} `json:"partialSuccess"`
	}
	_ = json.Unmarshal(said, &part) // whoever says nothing took all
	if n := part.PartialSuccess.RejectedSpans; n != "" && n != "0" {
		return 0, &refusedError{fmt.Sprintf("%s refused %s spans", req.URL.Host, n)}
	}
	return 0, nil
}

// inner is an error without the address that was asked, which may hold a key.
func inner(err error) error { return cmp.Or(errors.Unwrap(err), err) }

// retryAfter is how long a server wants to be left alone, in seconds or until a date; 0 when it does not say.
func retryAfter(said string) time.Duration {
	if n, err := strconv.Atoi(said); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(said); err == nil {
		return time.Until(at)
	}
	return 0
}

// http is the client, made when it is needed first. It follows no redirect, which would take the headers elsewhere.
func (s *sender) http() *http.Client {
	s.once.Do(func() {
		s.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	})
	return s.client
}

func (s *sender) close() {
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
}
