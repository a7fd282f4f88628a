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

// refusedError is a permanent error: trying again would not help.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return e.message }

// Number of attempts for a request that fails temporarily, and the minimum and maximum pause between them.
const (
	maxAttempts = 4
	minPause    = time.Second
	maxPause    = 30 * time.Second
)

// send sends spans, with further attempts after temporary errors. Once over is closed, there are no more attempts.
func (s *sender) send(ctx context.Context, closing <-chan struct{}, spans []span) error {
	body, err := s.encode(s.version, spans)
	if err != nil {
		return &refusedError{err.Error()}
	}
	wait := minPause
	for try := 1; ; try++ {
		after, err := s.post(ctx, body)
		if _, refused := err.(*refusedError); err == nil || refused || try == maxAttempts {
			return err
		}
		timer := time.NewTimer(min(max(wait, after), maxPause))
		select {
		case <-timer.C:
		case <-closing:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait *= 2
	}
}

// post makes one request. after is how long the collector asks to wait.
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
	res, err := s.httpClient().Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s does not answer: %w", req.URL.Host, withoutAddress(err))
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // a truncated answer counts as none
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(res.Header.Get("Retry-After")), fmt.Errorf("%s answers %s", req.URL.Host, res.Status)
	}
	if res.StatusCode/100 != 2 {
		return 0, &refusedError{fmt.Sprintf("%s answers %s", req.URL.Host, res.Status)}
	}
	var part struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // usually a string
		} `json:"partialSuccess"`
	}
	_ = json.Unmarshal(said, &part) // no statement means that all were accepted
	if n := part.PartialSuccess.RejectedSpans; n != "" && n != "0" {
		return 0, &refusedError{fmt.Sprintf("%s refused %s spans", req.URL.Host, n)}
	}
	return 0, nil
}

// withoutAddress returns an error without the request's address, which may contain a key.
func withoutAddress(err error) error { return cmp.Or(errors.Unwrap(err), err) }

// retryAfter parses Retry-After, which is in seconds or a date; 0 if it is neither.
func retryAfter(said string) time.Duration {
	if n, err := strconv.Atoi(said); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(said); err == nil {
		return time.Until(at)
	}
	return 0
}

// httpClient returns the client, creating it first if needed. It follows no redirects, which would send the headers to another server.
func (s *sender) httpClient() *http.Client {
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
