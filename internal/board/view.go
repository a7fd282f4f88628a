package board

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"net/url"
	"slices"
	"strings"
)

// view is what a tab shows, in parts. Only parts that change are sent again.
type view struct{ parts []part }

// part is the content of an element of a page.
type part struct {
	id    string // of the element
	html  string
	items []item // of a list, whose items can change one by one
}

// item is an element of a list.
type item struct{ id, html string }

// add adds a part that a template renders.
func (v *view) add(id, template string, data any) error {
	html, err := render(template, data)
	v.parts = append(v.parts, part{id: id, html: html})
	return err
}

// Part returns the content of an element when the page is first shown. Its template has escaped it.
func (v *view) Part(id string) template.HTML {
	for _, p := range v.parts {
		if p.id == id {
			return template.HTML(p.allHTML())
		}
	}
	return ""
}

func (p part) allHTML() string {
	if p.items == nil {
		return p.html
	}
	var b strings.Builder
	for _, i := range p.items {
		b.WriteString(i.html)
	}
	return b.String()
}

// page is the data that the template of a page gets.
type page struct {
	Data   any
	View   *view
	Stream string // the address of further changes
	Reads  bool   // the board is read-only
}

// streamURL returns the address at which a page gets the changes since it was made.
func (s *Server) streamURL(path string, query url.Values, seq uint64, log int) string {
	q := url.Values{"path": {path}, "at": {s.mark(seq, log)}}
	if len(query) > 0 {
		q.Set("query", query.Encode())
	}
	return dataPath + "stream?" + q.Encode()
}

// mark returns how far a tab is up to date, as text.
func (s *Server) mark(seq uint64, log int) string { return fmt.Sprintf("%s.%d.%d", s.runID, seq, log) }

// sentState is what a tab has been sent: hashes of parts, and of the items of lists.
type sentState struct {
	sums  map[string]uint64
	lists map[string][]string
}

func newSent() *sentState { return &sentState{map[string]uint64{}, map[string][]string{}} }

// changes returns the parts of a view that differ from what was sent, in the form in which a browser puts them in place.
func (s *sentState) changes(v *view) string {
	var b strings.Builder
	for _, p := range v.parts {
		if p.items == nil && s.lists[p.id] == nil {
			if s.differs(p.id, p.html) {
				writePartial(&b, p.id, "innerMorph", p.html)
			}
			continue
		}
		s.writeList(&b, p)
	}
	return b.String()
}

func (s *sentState) writeList(b *strings.Builder, p part) {
	ids := make([]string, len(p.items))
	for i, one := range p.items {
		ids[i] = one.id
	}
	same := s.lists[p.id] != nil && slices.Equal(ids, s.lists[p.id])
	s.lists[p.id] = ids
	for _, one := range p.items {
		if s.differs(one.id, one.html) && same {
			writePartial(b, one.id, "outerMorph", one.html)
		}
	}
	if !same {
		writePartial(b, p.id, "innerMorph", p.allHTML())
	}
}

func (s *sentState) differs(id, html string) bool {
	h := fnv.New64a()
	h.Write([]byte(html))
	sum := h.Sum64()
	was, there := s.sums[id]
	s.sums[id] = sum
	return !there || was != sum
}

// writePartial has a browser put HTML into an element, or replace the element by it.
func writePartial(b *strings.Builder, id, how, html string) {
	fmt.Fprintf(b, "<hx-partial hx-target=\"#%s\" hx-swap=\"%s\">%s</hx-partial>\n", id, how, html)
}
