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

// client talks to a model's server. It follows no redirect, which could take the key elsewhere.
func (o Options) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: gateway.Proxies(o.Environ).Of, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second,
			DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// server is a model's server. What it answers comes as server-sent events.
type server struct {
	client *http.Client
	alive  func()    // called for whatever comes
	log    io.Writer // what the server says when it refuses

	url    string
	header http.Header
}

// at is the server where it takes questions: at path below base. header goes with each.
func (s *server) at(base, path string, header http.Header) *server {
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream") // a refusal is JSON
	header.Set("User-Agent", "trellis")
	return &server{s.client, s.alive, s.log, strings.TrimRight(base, "/") + "/" + path, header}
}

const (
	maxRefusal = 64 << 10      // how much of a refusal is read
	maxEvent   = 4 * maxAnswer // the longest event: an answer, as JSON has it
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
	s.alive()
	if res.StatusCode/100 != 2 {
		return s.refused(res, res.Body)
	}
	in := bufio.NewReader(&pulse{res.Body, s.alive})
	if first, err := in.Peek(1); err == nil && (first[0] == '{' || first[0] == '<') { // JSON or a page, which no event begins like
		return s.refused(res, in)
	}
	for e, err := range sse.Read(in, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return fail(trellis.AgentProtocol, "an event of the answer is longer than %d MiB", maxEvent>>20)
		case err != nil: // whatever it is, the connection did not hold
			return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
		case e.Type == "error":
			return &brokenOff{e.Data}
		case e.Data == "" || e.Type == "ping":
			continue
		}
		if done, err := take([]byte(e.Data)); done || err != nil {
			return err
		}
	}
	return nil
}

func (s *server) refused(res *http.Response, in io.Reader) error {
	body, _ := io.ReadAll(io.LimitReader(in, maxRefusal)) // as far as it comes
	fmt.Fprintf(s.log, "%s %s: %s\n%s\n", res.Request.Method, res.Request.URL, res.Status, body)
	return &refusal{status: res.StatusCode, header: res.Header, body: body}
}

// event reads the data of an event into e. What has another type than the protocol says is passed over: not all that speak it
// keep to it, and what stands between may send words of its own to keep the connection. An event may be an error.
func event(data []byte, e any) error {
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
		return &brokenOff{string(data)}
	}
	return nil
}

// brokenOff is an error that came instead of the rest of an answer.
type brokenOff struct{ said string }

func (b *brokenOff) Error() string {
	return "the server broke off its answer: " + messageIn([]byte(b.said))
}

func (b *brokenOff) failure() *flow.Failure {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(b.said, w) })
	}
	switch detail := lastLines(b.Error()); {
	case isContextOverflow(b.said):
		return fail(trellis.ContextOverflow, "%s", detail)
	case exhausted(b.said):
		return fail(trellis.QuotaExhausted, "%s", detail)
	case says(`"rate_limit_error"`, `"rate_limit_exceeded"`):
		return limited(time.Time{}, detail)
	case says(`"overloaded_error"`, `"api_error"`):
		return fail(trellis.ProviderDown, "%s", detail)
	default:
		return fail(trellis.AgentExit, "%s", detail)
	}
}

// pulse tells of every piece that is read.
type pulse struct {
	io.Reader
	alive func()
}

func (p *pulse) Read(data []byte) (int, error) {
	n, err := p.Reader.Read(data)
	if n > 0 {
		p.alive()
	}
	return n, err
}

// refusal is a server's answer that is none: it has another status than success, or it is no stream of events.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

// Error is the status and the server's own words.
func (f *refusal) Error() string {
	words := messageIn(f.body)
	if f.status/100 == 3 {
		words = "it sends elsewhere, to " + f.header.Get("Location")
	}
	return strings.TrimSpace(fmt.Sprintf("the server answered %d %s: %s", f.status, http.StatusText(f.status), words))
}

// messageIn is the message in what a server says of an error, else all of it.
func messageIn(body []byte) (words string) {
	var in struct {
		Error   json.RawMessage
		Message string
	}
	json.Unmarshal(body, &in) //nolint:errcheck // what is no JSON has no message
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

// ofRequest reports whether the server did not understand the request, for another reason than its length.
func (f *refusal) ofRequest() bool {
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
	if known := byStatus(f.status, resumeAt(f.header, time.Now()), f.Error()); known != nil {
		return known
	}
	other := fail(trellis.AgentExit, "%s", f.Error())
	other.Retryable = f.status/100 == 4 // what else it may be is no answer of the protocol
	return other
}

// resumeAt is when a server can be asked again: its own word, or the end of the limits that are used up.
// Zero when it does not say.
func resumeAt(h http.Header, now time.Time) (at time.Time) {
	if at = moment(h.Get("Retry-After"), now); !at.IsZero() {
		return at
	}
	for name := range h {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || h.Get(name) != "0" && h.Get(name) != "rejected" {
			continue
		}
		reset := strings.NewReplacer("remaining", "reset", "status", "reset").Replace(name)
		if end := moment(h.Get(reset), now); end.After(at) {
			at = end
		}
	}
	return at
}

// moment reads the many ways to say when: seconds or a duration from now, or a time. It is never before now.
func moment(s string, now time.Time) (at time.Time) {
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
