package board

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// column is a column of tasks, by what a person has to do about them.
type column struct {
	Key, Name, Says string
	Count           int
	More            int // cards that are not shown
	Cards           []*card
}

// columns has the tasks that match a query, in their columns.
type columns struct {
	Query   url.Values
	Columns []*column
	Total   int
	Watcher string
	Name    string // of the repository
	Reads   bool   // the board is read-only

	seq uint64
}

// perColumn is how many cards a column shows unless a person asks for more.
const perColumn = 50

func emptyColumns() []*column {
	return []*column{
		{Key: "needs", Name: "Needs you", Says: "to review, to decide, failed"},
		{Key: "working", Name: "Working", Says: "an agent is at it"},
		{Key: "queued", Name: "Queued", Says: "continues by itself"},
		{Key: "done", Name: "Done", Says: "nothing is left to do"},
	}
}

// Statuses returns what can be filtered by.
func (c *columns) Statuses() []trellis.Status { return trellis.Statuses }

// Limit returns how many cards of a column are shown.
func (c *columns) Limit() int {
	if n, err := strconv.Atoi(c.Query.Get("limit")); err == nil && n > perColumn {
		return min(n, 1000)
	}
	return perColumn
}

// MoreURL returns the address that shows more cards.
func (c *columns) MoreURL() string {
	q := url.Values{}
	maps.Copy(q, c.Query)
	q.Set("limit", strconv.Itoa(c.Limit()*4))
	return "/?" + q.Encode()
}

// columnsOf sorts the tasks into columns, by their current state.
func (s *Server) columnsOf(ctx context.Context, query url.Values) (*columns, error) {
	cards, seq, watcher, err := s.tasks.all(ctx)
	if err != nil {
		return nil, err
	}
	c := &columns{Query: query, Columns: emptyColumns(), Total: len(cards), Watcher: watcher, Name: s.name, Reads: s.o.ReadOnly, seq: seq}
	at, limit := map[string]*column{}, c.Limit()
	for _, col := range c.Columns {
		at[col.Key] = col
	}
	for _, one := range cards {
		if c.matches(one) {
			at[one.Column].add(one, limit)
		}
	}
	return c, nil
}

// matches reports whether a card matches the query.
func (c *columns) matches(one *card) bool {
	if want := c.Query.Get("status"); want != "" && want != string(one.Status) {
		return false
	}
	if want := c.Query.Get("priority"); want != "" && want != one.Priority {
		return false
	}
	for word := range strings.FieldsSeq(strings.ToLower(c.Query.Get("q"))) {
		if !strings.Contains(strings.ToLower(one.ID+" "+one.Title+" "+one.Who), word) {
			return false
		}
	}
	return true
}

// add counts a card, and shows it if there is room.
func (col *column) add(one *card, limit int) {
	if col.Count++; len(col.Cards) < limit {
		col.Cards = append(col.Cards, one)
	} else {
		col.More++
	}
}

// view returns the parts of a page of columns.
func (c *columns) view() (*view, error) {
	v := &view{}
	for _, col := range c.Columns {
		list := part{id: "list-" + col.Key}
		for _, one := range col.Cards {
			html, err := one.html()
			if err != nil {
				return nil, err
			}
			list.items = append(list.items, item{"card-" + elementID(one.ID), html})
		}
		v.parts = append(v.parts, list)
		if err := v.add("head-"+col.Key, "column-head", col); err != nil {
			return nil, err
		}
		if err := v.add("more-"+col.Key, "column-more", map[string]any{"More": col.More, "URL": c.MoreURL()}); err != nil {
			return nil, err
		}
	}
	return v, v.add("watcher", "watcher", c)
}

// columns returns the page of all tasks.
func (s *Server) columns(ctx context.Context, r *http.Request) (string, error) {
	c, v, err := s.columnsView(ctx, r.URL.Query())
	if err != nil {
		return "", err
	}
	return render("columns", page{c, v, s.streamURL("/", r.URL.Query(), c.seq, 0), s.o.ReadOnly})
}

// columnsView returns that page in parts. Tabs with the same query share it.
func (s *Server) columnsView(ctx context.Context, query url.Values) (*columns, *view, error) {
	key := query.Encode()
	s.viewsLock.Lock()
	defer s.viewsLock.Unlock()
	if was, ok := s.views[key]; ok && was.c.seq == s.tasks.count() {
		return was.c, was.v, nil
	}
	c, err := s.columnsOf(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.view()
	if err == nil {
		if len(s.views) > 20 {
			clear(s.views)
		}
		s.views[key] = sharedView{c, v}
	}
	return c, v, err
}

// sharedView is a page of columns in parts, kept for other tabs.
type sharedView struct {
	c *columns
	v *view
}
