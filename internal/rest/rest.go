// Package rest asks servers that speak JSON over HTTP, as trackers and forges do.
//
// What they say is data: it is bounded in length and time. Who asks is told to the server alone that it is meant for: a
// redirect to another host is not followed, and no error shows a token.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Server is one that is asked. Its methods may be called by several goroutines at once.
type Server struct {
	Name string            // as errors call it: GitLab
	Base string            // the address that all paths are below, without a slash at its end
	Sign func(http.Header) // says who asks; nil: nobody does
	Wall time.Duration     // of one call; 0: half a minute
	// Refused gets each answer that says no, with its body, and may say better what it means; nil: its status does.
	Refused func(*Error, []byte)
}

const (
	wall      = 30 * time.Second
	maxAnswer = 32 << 20
	maxSaid   = 300 // of what a server says of an error, in bytes
	tries     = 3
	patience  = 10 * time.Second // the longest pause that a server may ask for, and get
	shortest  = time.Second      // the pause before one that asks for none is asked again
)

// Error is an answer that says no.
type Error struct {
	Server string
	Asked  string // method and path
	Status int
	Said   string        // what the server says, in one line
	Wait   time.Duration // when it asks for a pause: how long
	Header http.Header
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s answers %d to %s", e.Server, e.Status, e.Asked)
	if e.Said != "" {
		s += ": " + e.Said
	}
	if e.Wait > 0 {
		s += fmt.Sprintf("; it asks to wait %s", e.Wait.Round(time.Second))
	}
	return s
}

// Busy reports whether the server was asked too often: GitHub says so with the status of what is forbidden, too.
func (e *Error) Busy() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusForbidden && (e.Wait > 0 || e.Header.Get("X-RateLimit-Remaining") == "0")
}

// Passing reports whether the same may be taken another time: the server was asked too often, is out of order, somebody was faster, or what was
// pushed a moment ago is not known everywhere.
func (e *Error) Passing() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return true
	}
	return e.Busy() || e.Status >= 500
}

// StatusOf is the status of the answer in an error, 0 when there is none.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// ErrAway says that a server gave no answer.
var ErrAway = errors.New("no answer")

// client follows redirects of questions within their host, and no other.
var client = sync.OnceValue(func() *http.Client {
	return &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		first := via[0]
		if first.Method != http.MethodGet || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host || len(via) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
})

// Do sends a request with in as its body, unless that is nil, and reads the answer into out, unless that is nil or a
// *[]byte, which gets it as it is. A pause that the server asks for is made when it is short.
func (s *Server) Do(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = text.JSON(in); err != nil {
			return nil, fmt.Errorf("writing a request to %s: %w", s.Name, err)
		}
	}
	for try := 1; ; try++ {
		h, err := s.once(ctx, method, path, body, out)
		var no *Error
		if !errors.As(err, &no) || !no.Busy() || no.Wait > patience || no.Wait == 0 && no.Header.Get("X-RateLimit-Remaining") == "0" || try == tries {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(max(no.Wait, shortest)):
		}
	}
}

func (s *Server) once(ctx context.Context, method, path string, body []byte, out any) (http.Header, error) {
	limit := s.Wall
	if limit <= 0 {
		limit = wall
	}
	bounded, stop := context.WithTimeout(ctx, limit)
	defer stop()
	r, err := http.NewRequestWithContext(bounded, method, s.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", s.Name, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "trellis")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.Sign != nil {
		s.Sign(r.Header)
	}
	res, err := client().Do(r)
	if err != nil {
		return nil, s.away(ctx, r.URL, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, s.away(ctx, r.URL, err)
	}
	asked := method + " " + r.URL.Path
	switch {
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s answers more than %d MB to %s", s.Name, maxAnswer>>20, asked)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return nil, &Error{Server: s.Name, Asked: asked, Status: res.StatusCode, Header: res.Header, Said: "it sends elsewhere, to " + host(res) + ", where no token is taken"}
	case res.StatusCode < 200 || res.StatusCode >= 300:
		no := &Error{Server: s.Name, Asked: asked, Status: res.StatusCode, Said: said(data), Wait: pause(res), Header: res.Header}
		if s.Refused != nil {
			s.Refused(no, data)
		}
		return nil, no
	}
	if raw, is := out.(*[]byte); is {
		*raw = data
		return res.Header, nil
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			return nil, fmt.Errorf("reading what %s answers to %s: %w", s.Name, asked, err)
		}
	}
	return res.Header, nil
}

// away is the error of a server that could not be reached, without the address, which net/http repeats.
func (s *Server) away(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("%w of %s at %s: %w", ErrAway, s.Name, u.Host, err)
}

// host is where an answer sends to.
func host(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return trellis.VisibleLine(u.Scheme + "://" + u.Host)
}

// pause is how long an answer asks to wait, 0 when it does not: by the header that all servers know, or by the one in which GitHub
// says when what was used up is there again, by the server's own clock.
func pause(res *http.Response) time.Duration {
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	now, dateErr := http.ParseTime(res.Header.Get("Date"))
	if at, err := http.ParseTime(res.Header.Get("Retry-After")); err == nil && dateErr == nil {
		return max(0, at.Sub(now))
	}
	reset, err := strconv.ParseInt(res.Header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || dateErr != nil || res.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	return max(0, time.Unix(reset, 0).Sub(now))
}

// said is what a server says of an error: of JSON the texts in it that are for people, else nothing, since a page of HTML
// tells nobody anything.
func said(data []byte) string {
	var answer map[string]any
	if json.Unmarshal(data, &answer) != nil {
		return ""
	}
	var list []string
	for _, key := range []string{"message", "error", "error_description", "errorMessages", "errors"} {
		list = append(list, texts(answer[key])...)
	}
	return text.Cut(trellis.VisibleLine(strings.Join(list, ", ")), maxSaid)
}

func texts(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			list = append(list, texts(one)...)
		}
	case map[string]any:
		if m, is := v["message"].(string); is {
			return []string{m}
		}
		for key, one := range v {
			for _, s := range texts(one) {
				list = append(list, key+" "+s)
			}
		}
	}
	return list
}
