package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

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

// server looks on at the exchange with a model's server.
type server struct {
	alive func()    // called for whatever comes
	log   io.Writer // what the server says when it refuses
}

// maxRefusal is how much of a refusal is read.
const maxRefusal = 64 << 10

// pass sends a request. An answer that is none is a *refusal.
func (s *server) pass(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(r)
	if err != nil {
		return nil, err
	}
	s.alive()
	if res.StatusCode/100 == 2 {
		res.Body = &pulse{res.Body, s.alive}
		return res, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // as far as it comes
	fmt.Fprintf(s.log, "%s %s: %s\n%s\n", r.Method, r.URL, res.Status, body)
	return nil, &refusal{status: res.StatusCode, header: res.Header, body: body}
}

// pulse tells of every piece that is read.
type pulse struct {
	io.ReadCloser
	alive func()
}

func (p *pulse) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	if n > 0 {
		p.alive()
	}
	return n, err
}

// refusal is a server's answer that has another status than success.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

// Error is the status and the server's own words.
func (f *refusal) Error() string {
	words := f.words()
	if f.status/100 == 3 {
		words = "it sends elsewhere, to " + f.header.Get("Location")
	}
	return strings.TrimSpace(fmt.Sprintf("the server answered %d %s: %s", f.status, http.StatusText(f.status), words))
}

// words are the message in the body, else all of it.
func (f *refusal) words() (words string) {
	var in struct {
		Error   json.RawMessage
		Message string
	}
	json.Unmarshal(f.body, &in) //nolint:errcheck // what is no JSON has no message
	words = in.Message
	if len(in.Error) > 0 {
		var inner struct{ Message string }
		if json.Unmarshal(in.Error, &words) != nil && json.Unmarshal(in.Error, &inner) == nil {
			words = inner.Message
		}
	}
	if words == "" {
		words = lastLines(string(f.body))
	}
	return words
}

// ofRequest reports whether the server did not understand the request, for another reason than its length.
func (f *refusal) ofRequest() bool {
	return (f.status == http.StatusBadRequest || f.status == http.StatusUnprocessableEntity) && !f.tooLong()
}

// tooLong reports whether prompt or conversation do not fit into the model.
func (f *refusal) tooLong() bool {
	if f.status/100 != 4 {
		return false
	}
	return f.status == http.StatusRequestEntityTooLarge || tooLong(string(f.body))
}

func (f *refusal) failure() *flow.Failure {
	if f.tooLong() {
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
