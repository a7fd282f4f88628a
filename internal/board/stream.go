package board

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// pace is the least time between two messages to a tab: what happens meanwhile is sent together.
const pace = 100 * time.Millisecond

// shows is the page that a stream is about.
type shows interface {
	// next returns the view of the page, nil if whole is false and only the log may have changed, and what else is
	// to be put in place. log and end are the lines of the log that come next before and after the call.
	next(ctx context.Context, whole bool, log int) (v *view, besides string, end int, err error)
	task() string
}

// stream sends a tab the changes of its page, until it goes away or the board ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many tabs listen", http.StatusServiceUnavailable)
		return
	}
	of, err := s.shownAt(r.Context(), r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	tab := s.tasks.open(of.task(), browserOf(r))
	if tab == nil {
		http.Error(w, "the board ends", http.StatusServiceUnavailable)
		return
	}
	defer s.tasks.leave(tab)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	c := &channel{s: s, w: w, flush: http.NewResponseController(w), sent: newSent()}
	if err := c.begin(r.Context(), of, lastMark(r)); err != nil {
		return
	}
	for {
		select {
		case <-tab.wake:
		case <-tab.rest:
			_ = c.rest() // an error means that the tab is gone
			return
		case <-tab.ended:
			return
		case <-r.Context().Done():
			return
		}
		if c.tell(r.Context(), of, tab.take()) != nil {
			return
		}
		select {
		case <-time.After(pace):
		case <-tab.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// browserOf returns the browser that a tab says it is in, whose tabs share its connections; "" for HTTP/2, which needs only one.
func browserOf(r *http.Request) string {
	if r.ProtoMajor > 1 {
		return ""
	}
	return r.Header.Get("Trellis-Browser")
}

// lastMark returns how far a tab is up to date: by the last message that it got, or when its page was made.
func lastMark(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("at")
}

// channel is a stream to a tab.
type channel struct {
	s     *Server
	w     http.ResponseWriter
	flush *http.ResponseController
	sent  *sent
	log   int // the next line of the log
}

// begin sends a tab everything that it lacks.
func (c *channel) begin(ctx context.Context, of shows, mark string) error {
	born, rest, _ := strings.Cut(mark, ".")
	at, line, _ := strings.Cut(rest, ".")
	if born == c.s.born {
		c.log, _ = strconv.Atoi(line) // a tab without a valid number gets all lines
	}
	seq := c.s.tasks.count()
	v, besides, end, err := of.next(ctx, true, c.log)
	if err != nil {
		return err
	}
	news := c.sent.news(v)
	if born == c.s.born && at == fmt.Sprint(seq) && c.s.tasks.count() == seq {
		news = ""
	}
	c.log = end
	return c.write(news+besides, seq)
}

func (c *channel) tell(ctx context.Context, of shows, whole bool) error {
	seq := c.s.tasks.count()
	v, besides, end, err := of.next(ctx, whole, c.log)
	if err != nil {
		return c.write(gone(err), seq)
	}
	news := besides
	if v != nil {
		news = c.sent.news(v) + besides
	}
	c.log = end
	if news == "" {
		return nil
	}
	return c.write(news, seq)
}

// gone returns what a page shows if its task can't be read any more.
func gone(err error) string {
	html, renderErr := render("gone", err.Error())
	if renderErr != nil {
		return ""
	}
	var b strings.Builder
	put(&b, "gone", "innerHTML", html)
	return b.String()
}

// rest tells a tab that other tabs are served instead.
func (c *channel) rest() error { return c.send("event: rest\n\n") }

// write sends a message. One without content shows that the stream is open.
func (c *channel) write(html string, seq uint64) error {
	var b strings.Builder
	fmt.Fprintf(&b, "id: %s\n", c.s.mark(seq, c.log))
	if html != "" {
		for line := range strings.SplitSeq(strings.TrimRight(html, "\n"), "\n") {
			fmt.Fprintf(&b, "data: %s\n", strings.ReplaceAll(line, "\r", "&#13;"))
		}
	}
	b.WriteString("\n")
	return c.send(b.String())
}

func (c *channel) send(message string) error {
	_ = c.flush.SetWriteDeadline(time.Now().Add(30 * time.Second)) // a tab that does not read is dropped
	if _, err := c.w.Write([]byte(message)); err != nil {
		return err
	}
	return c.flush.Flush()
}

// shownAt returns the page that a stream is about.
func (s *Server) shownAt(ctx context.Context, q url.Values) (shows, error) {
	query, err := url.ParseQuery(q.Get("query"))
	if err != nil {
		return nil, errNoPage
	}
	if q.Get("path") == "/" {
		return columnStream{s, query}, nil
	}
	id, tab, _ := strings.Cut(strings.TrimPrefix(q.Get("path"), "/task/"), "/")
	if !s.tasks.knows(ctx, id) {
		return nil, noTask(id)
	}
	return &taskStream{s, id, tab}, nil
}

var errNoPage = errors.New("there is no such page")

// columnStream is the page of all tasks.
type columnStream struct {
	s     *Server
	query url.Values
}

func (c columnStream) task() string { return "" }

func (c columnStream) next(ctx context.Context, _ bool, log int) (*view, string, int, error) {
	_, v, err := c.s.columnsView(ctx, c.query)
	return v, "", log, err
}
