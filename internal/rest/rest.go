// Package rest sends requests to servers that speak JSON over HTTP, as trackers and forges do.
//
// Answers are data: they are bounded in length and time. Credentials are sent only to the server that they are meant for: a
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

// Server is a server to send requests to. Its methods may be called concurrently.
type Server struct {
	Name string            // its name in errors: GitLab
	Base string            // address that all paths are below, without a slash at its end
	Sign func(http.Header) // adds the credentials; nil: none
	Wall time.Duration     // time limit of one call; 0: half a minute
	// Refused is called with each error answer and its body, and may say better what it means; nil: its status says it.
	Refused func(*Error, []byte)
}

const (
	wall      = 30 * time.Second
	maxAnswer = 32 << 20
	maxSaid   = 300 // bytes of a server's error message
	tries     = 3
	maxPause  = 10 * time.Second // longest pause that is made because a server asks for it
	minPause  = time.Second      // pause before the next try if the server asks for none
)

// Error is an answer with a status that is not a success.
type Error struct {
	Server string
	Asked  string // method and path
	Status int
	Said   string        // message of the server, in one line
	Wait   time.Duration // pause that the server asks for; 0: none
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

// Busy reports whether the server was asked too often. GitHub also says that with the status 403 of what is forbidden.
func (e *Error) Busy() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusForbidden && (e.Wait > 0 || e.Header.Get("X-RateLimit-Remaining") == "0")
}

// IsTransient reports whether the same request may succeed later: the server was asked too often, is out of order, somebody was
// faster, or what was pushed a moment ago is not known everywhere.
func (e *Error) IsTransient() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return true
	}
	return e.Busy() || e.Status >= 500
}

// StatusOf returns the status of the answer in an error, 0 if there is none.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// ErrNoAnswer is returned if a server gave no answer.
var ErrNoAnswer = errors.New("no answer")

// client follows redirects of GET requests within their host, and no others.
var client = sync.OnceValue(func() *http.Client {
	return &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		first := via[0]
		if first.Method != http.MethodGet || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host || len(via) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
})

// Do sends a request with in as its body, unless that is nil, and decodes the answer into out, unless that is nil; a *[]byte
// gets the answer as it is. If the server is busy and asks for a short pause, or for none, Do waits and tries again.
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
		if !errors.As(err, &no) || !no.Busy() || no.Wait > maxPause || no.Wait == 0 && no.Header.Get("X-RateLimit-Remaining") == "0" || try == tries {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(max(no.Wait, minPause)):
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
		return nil, s.noAnswerError(ctx, r.URL, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, s.noAnswerError(ctx, r.URL, err)
	}
	asked := method + " " + r.URL.Path
	switch {
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s answers more than %d MB to %s", s.Name, maxAnswer>>20, asked)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return nil, &Error{Server: s.Name, Asked: asked, Status: res.StatusCode, Header: res.Header, Said: "it sends elsewhere, to " + host(res) + ", where no token is taken"}
	case res.StatusCode < 200 || res.StatusCode >= 300:
		no := &Error{Server: s.Name, Asked: asked, Status: res.StatusCode, Said: errorText(data), Wait: pause(res), Header: res.Header}
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

// noAnswerError returns the error for a server that could not be reached, without the address, which net/http repeats.
func (s *Server) noAnswerError(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("%w of %s at %s: %w", ErrNoAnswer, s.Name, u.Host, err)
}

// host returns where an answer redirects to.
func host(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return trellis.VisibleLine(u.Scheme + "://" + u.Host)
}

// pause returns how long an answer asks to wait, 0 if it does not: by the header that all servers know, or by the one in
// which GitHub says when the limit is reset, by the server's own clock.
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

// errorText returns the error message of a server: of JSON the texts in it that are for people, else nothing, since a page of HTML
// tells nobody anything.
func errorText(data []byte) string {
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
