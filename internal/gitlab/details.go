package gitlab

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// maxNotes is how many remarks of a merge request are read.
const maxNotes = 500

// note is something that was written to a merge request, by a person or by GitLab itself.
type note struct {
	ID         int
	Type, Body string // of a type: DiffNote, DiscussionNote, none
	System     bool
	Resolved   bool
	Author     person
	Position   *struct {
		NewPath string `json:"new_path"`
		OldPath string `json:"old_path"`
		NewLine int    `json:"new_line"`
		OldLine int    `json:"old_line"`
	}
}

// Details asks for the remarks on the merge request with that address. GitLab requires no checks by name: all count.
func (c *Client) Details(ctx context.Context, address string) (d forge.Details, err error) {
	project, path, err := c.locate(address)
	if err != nil {
		return d, err
	}
	threads, _, err := all[struct{ Notes []note }](ctx, c, project, path+"/discussions", maxNotes)
	if err != nil {
		return d, err
	}
	for _, t := range threads {
		if len(t.Notes) == 0 || t.Notes[0].Position == nil || t.Notes[0].Resolved {
			continue
		}
		at := t.Notes[0].Position
		for _, n := range t.Notes {
			if n.System {
				continue
			}
			trusted, err := c.mayPush(ctx, project, n.Author)
			if err != nil {
				return d, err
			}
			d.Remarks = append(d.Remarks, forge.Remark{ID: strconv.Itoa(n.ID), Author: n.Author.Username, Path: cmp.Or(at.NewPath, at.OldPath), Line: cmp.Or(at.NewLine, at.OldLine), Text: n.Body, Trusted: trusted})
		}
	}
	return d, nil
}

// jobURL finds the number of a job in its address.
var jobURL = trellis.Pattern(`/-/jobs/([1-9][0-9]*)$`)

// lineTime is what GitLab's runners write into a log before each line: its time and its stream.
const lineTime = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]`

// decoration is all that they write beside what commands print: that, with a + where a line goes on with the one before, and colours, and
// where parts of it begin and end.
var decoration = trellis.Pattern(`(?m)\n` + lineTime + `\+|^` + lineTime + `[ +]|section_(?:start|end):\d+:[\w.-]+(?:\[[^\]\r\n]*\])?\r?|\x1b\[[0-9;]*[A-Za-z]`)

// Log is what a job printed; "" for a check that is none.
func (c *Client) Log(ctx context.Context, check forge.Check) (string, error) {
	m := jobURL().FindStringSubmatch(check.URL)
	if m == nil || !strings.HasPrefix(check.URL, c.place.URL+"/") {
		return "", nil
	}
	var data []byte
	if _, err := c.askOwn(ctx, http.MethodGet, "/jobs/"+m[1]+"/trace", nil, &data); err != nil {
		return "", err
	}
	return decoration().ReplaceAllString(string(data), ""), nil
}
