package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// client returns an HTTP client for a model's server. It follows no redirects, which could take the key elsewhere.
func (o Options) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: gateway.Proxies(o.Environ).ProxyFor, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second,
			DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// server is a model's server, which answers with server-sent events.
type server struct {
	client    *http.Client
	onReceive func()    // called for everything that is received
	log       io.Writer // receives the server's answer if it refuses a request

	url    string
	header http.Header
}

// withEndpoint returns a server whose requests go to path below base, with the given header.
func (s *server) withEndpoint(base, path string, header http.Header) *server {
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream") // errors are JSON
	header.Set("User-Agent", "trellis")
	return &server{s.client, s.onReceive, s.log, strings.TrimRight(base, "/") + "/" + path, header}
}

const (
	maxRefusal = 64 << 10      // bytes of a refusal that are read
	maxEvent   = 4 * maxAnswer // bytes of an event: an answer, encoded as JSON
)

// ask sends a request with question as its JSON body, once, and calls take with the data of each server-sent event of the response as it
// arrives, until the response ends or take returns true. A response whose status is not 2xx, or whose
// body is JSON or a page rather than events, is returned as a *refusal.
func (s *server) ask(ctx context.Context, question any, take func(data []byte) (done bool, err error)) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = s.header
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	s.onReceive()
	if res.StatusCode/100 != 2 {
		return s.readRefusal(res, res.Body)
	}
	in := bufio.NewReader(&activityReader{res.Body, s.onReceive})
	if first, err := in.Peek(1); err == nil && (first[0] == '{' || first[0] == '<') { // JSON or HTML: no event begins like this
		return s.readRefusal(res, in)
	}
	for e, err := range sse.Read(in, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return fail(trellis.AgentProtocol, "an event of the answer is longer than %d MiB", maxEvent>>20)
		case err != nil: // any such error means that the connection was lost
			return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
		case e.Type == "error":
			return &streamError{e.Data}
		case e.Data == "" || e.Type == "ping":
			continue
		}
		if done, err := take([]byte(e.Data)); done || err != nil {
			return err
		}
	}
	return nil
}

func (s *server) readRefusal(res *http.Response, in io.Reader) error {
	body, _ := io.ReadAll(io.LimitReader(in, maxRefusal)) // as much as can be read
	fmt.Fprintf(s.log, "%s %s: %s\n%s\n", res.Request.Method, res.Request.URL, res.Status, body)
	return &refusal{status: res.StatusCode, header: res.Header, body: body}
}

// decodeEventData decodes the data of an event into e. Fields of an unexpected type are skipped: not every server follows the protocol, and
// proxies may send messages of their own to keep the connection open. If the event is an error, decodeEventData returns a *streamError.
func decodeEventData(data []byte, e any) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil
	}
	var failed struct{ Error json.RawMessage }
	for _, into := range []any{&failed, e} {
		if err := json.Unmarshal(data, into); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
			return err
		}
	}
	if failed.Error != nil && string(failed.Error) != "null" {
		return &streamError{string(data)}
	}
	return nil
}

// streamError is an error that the server sent instead of the rest of its answer.
type streamError struct{ message string }

func (b *streamError) Error() string {
	return "the server broke off its answer: " + errorMessage([]byte(b.message))
}

func (b *streamError) failure() *flow.Failure {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(b.message, w) })
	}
	switch detail := lastLines(b.Error()); {
	case isContextOverflow(b.message):
		return fail(trellis.ContextOverflow, "%s", detail)
	case isQuotaExhausted(b.message):
		return fail(trellis.QuotaExhausted, "%s", detail)
	case says(`"rate_limit_error"`, `"rate_limit_exceeded"`):
		return rateLimitFailure(time.Time{}, detail)
	case says(`"overloaded_error"`, `"api_error"`):
		return fail(trellis.ProviderDown, "%s", detail)
	default:
		return fail(trellis.AgentExit, "%s", detail)
	}
}

// activityReader calls onRead for every piece that is read.
type activityReader struct {
	io.Reader
	onRead func()
}

func (p *activityReader) Read(data []byte) (int, error) {
	n, err := p.Reader.Read(data)
	if n > 0 {
		p.onRead()
	}
	return n, err
}

// refusal is a response without an answer: its status is not 2xx, or its body is not an event stream.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

// Error returns the status and the server's message.
func (f *refusal) Error() string {
	words := errorMessage(f.body)
	if f.status/100 == 3 {
		words = "it sends elsewhere, to " + f.header.Get("Location")
	}
	return strings.TrimSpace(fmt.Sprintf("the server answered %d %s: %s", f.status, http.StatusText(f.status), words))
}

// errorMessage returns the message in the body of an error response, or the end of the body if there is none.
func errorMessage(body []byte) (words string) {
	var in struct {
		Error   json.RawMessage
		Message string
	}
	json.Unmarshal(body, &in) //nolint:errcheck // a body that is not JSON has no message
	words = in.Message
	if len(in.Error) > 0 {
		var inner struct{ Message string }
		if json.Unmarshal(in.Error, &words) != nil && json.Unmarshal(in.Error, &inner) == nil {
			words = inner.Message
		}
	}
	if words == "" {
		words = lastLines(string(body))
	}
	return words
}

// isInvalidRequest reports whether the server did not accept the form of the request, other than because of its length.
func (f *refusal) isInvalidRequest() bool {
	return (f.status == http.StatusBadRequest || f.status == http.StatusUnprocessableEntity) && !f.isContextOverflow()
}

// isContextOverflow reports whether the prompt or the conversation is too long for the model.
func (f *refusal) isContextOverflow() bool {
	if f.status/100 != 4 {
		return false
	}
	return f.status == http.StatusRequestEntityTooLarge || isContextOverflow(string(f.body))
}

func (f *refusal) failure() *flow.Failure {
	if f.isContextOverflow() {
		return fail(trellis.ContextOverflow, "%s", f.Error())
	}
	if known := statusFailure(f.status, resumeAt(f.header, time.Now()), f.Error()); known != nil {
		return known
	}
	other := fail(trellis.AgentExit, "%s", f.Error())
	other.Retryable = f.status/100 == 4 // any other status is not part of the protocol
	return other
}

// resumeAt returns the time from which a server can be asked again: its Retry-After, or else the latest reset of the rate limits
// that are used up. It returns zero if the server gives no time.
func resumeAt(h http.Header, now time.Time) (at time.Time) {
	if at = parseTime(h.Get("Retry-After"), now); !at.IsZero() {
		return at
	}
	for name := range h {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || h.Get(name) != "0" && h.Get(name) != "rejected" {
			continue
		}
		reset := strings.NewReplacer("remaining", "reset", "status", "reset").Replace(name)
		if end := parseTime(h.Get(reset), now); end.After(at) {
			at = end
		}
	}
	return at
}

// parseTime parses a time as servers give it: seconds or a duration from now, a Unix time or a date. The result is at least one
// second after now, or zero if s can't be parsed.
func parseTime(s string, now time.Time) (at time.Time) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseFloat(s, 64); err == nil && n >= 0 && n < 1e14 {
		switch {
		case n > 1e11:
			at = time.UnixMilli(int64(n))
		case n > 1e9:
			at = time.Unix(int64(n), 0)
		default:
			at = now.Add(time.Duration(n * float64(time.Second)))
		}
	} else if d, err := time.ParseDuration(s); err == nil {
		at = now.Add(d)
	} else if at, err = time.Parse(time.RFC3339, s); err != nil {
		if at, err = http.ParseTime(s); err != nil {
			return time.Time{}
		}
	}
	if soon := now.Add(time.Second); at.Before(soon) {
		return soon
	}
	return at
}
