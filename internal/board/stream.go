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

// messageInterval is the least time between two messages to a tab: what happens meanwhile is sent together.
const messageInterval = 100 * time.Millisecond

// streamedPage is the page that a stream is about.
type streamedPage interface {
	// next returns the view of the page, nil if whole is false and only the log may have changed, and what else is
	// to be put in place. log and end are the lines of the log that come next before and after the call.
	next(ctx context.Context, whole bool, log int) (v *view, besides string, end int, err error)
	task() string
}

// stream sends a tab the changes of its page, until it goes away or the board ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.openStreams <- struct{}{}:
		defer func() { <-s.openStreams }()
	default:
		http.Error(w, "too many tabs listen", http.StatusServiceUnavailable)
		return
	}
	streamed, err := s.pageAt(r.Context(), r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), httpStatus(err))
		return
	}
	tab := s.tasks.addTab(streamed.task(), browserOf(r))
	if tab == nil {
		http.Error(w, "the board ends", http.StatusServiceUnavailable)
		return
	}
	defer s.tasks.removeTab(tab)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	c := &channel{s: s, w: w, flush: http.NewResponseController(w), sent: newSent()}
	if err := c.sendAll(r.Context(), streamed, lastMark(r)); err != nil {
		return
	}
	for {
		select {
		case <-tab.wake:
		case <-tab.displaced:
			_ = c.sendRest() // an error means that the tab is gone
			return
		case <-tab.ended:
			return
		case <-r.Context().Done():
			return
		}
		if c.sendChanges(r.Context(), streamed, tab.takeTaskChanged()) != nil {
			return
		}
		select {
		case <-time.After(messageInterval):
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
	sent  *sentState
	log   int // the next line of the log
}

// sendAll sends a tab everything that it lacks.
func (c *channel) sendAll(ctx context.Context, streamed streamedPage, mark string) error {
	runID, rest, _ := strings.Cut(mark, ".")
	at, line, _ := strings.Cut(rest, ".")
	if runID == c.s.runID {
		c.log, _ = strconv.Atoi(line) // a tab without a valid number gets all lines
	}
	seq := c.s.tasks.count()
	v, besides, end, err := streamed.next(ctx, true, c.log)
	if err != nil {
		return err
	}
	news := c.sent.changes(v)
	if runID == c.s.runID && at == fmt.Sprint(seq) && c.s.tasks.count() == seq {
		news = ""
	}
	c.log = end
	return c.write(news+besides, seq)
}

func (c *channel) sendChanges(ctx context.Context, streamed streamedPage, whole bool) error {
	seq := c.s.tasks.count()
	v, besides, end, err := streamed.next(ctx, whole, c.log)
	if err != nil {
		return c.write(goneMessage(err), seq)
	}
	news := besides
	if v != nil {
		news = c.sent.changes(v) + besides
	}
	c.log = end
	if news == "" {
		return nil
	}
	return c.write(news, seq)
}

// goneMessage returns what a page shows if its task can't be read any more.
func goneMessage(err error) string {
	html, renderErr := render("gone", err.Error())
	if renderErr != nil {
		return ""
	}
	var b strings.Builder
	writePartial(&b, "gone", "innerHTML", html)
	return b.String()
}

// sendRest tells a tab that other tabs are served instead.
func (c *channel) sendRest() error { return c.send("event: rest\n\n") }

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

// pageAt returns the page that a stream is about.
func (s *Server) pageAt(ctx context.Context, q url.Values) (streamedPage, error) {
	query, err := url.ParseQuery(q.Get("query"))
	if err != nil {
		return nil, errNoPage
	}
	if q.Get("path") == "/" {
		return columnStream{s, query}, nil
	}
	id, tab, _ := strings.Cut(strings.TrimPrefix(q.Get("path"), "/task/"), "/")
	if !s.tasks.contains(ctx, id) {
		return nil, noTaskError(id)
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
