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

// maxNotes is how many notes of a merge request are read.
const maxNotes = 500

// note is a note on a merge request, by a person or by GitLab itself.
type note struct {
	ID         int
	Type, Body string // Type is DiffNote, DiscussionNote or ""
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

// Details reads the remarks on the merge request with that address. GitLab can't require checks by name, so all of them count.
func (c *Client) Details(ctx context.Context, address string) (d forge.Details, err error) {
	project, path, err := c.locate(address)
	if err != nil {
		return d, err
	}
	threads, _, err := listAll[struct{ Notes []note }](ctx, c, project, path+"/discussions", maxNotes)
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

// jobURL matches the address of a job, and captures its number.
var jobURL = trellis.Pattern(`/-/jobs/([1-9][0-9]*)$`)

// logTimestamp matches what GitLab's runners write into a log before each line: a timestamp and the stream.
const logTimestamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]`

// logDecoration matches everything that runners add to the output of commands: logTimestamp, followed by + if the line continues
// the previous one, colours, and the markers of sections.
var logDecoration = trellis.Pattern(`(?m)\n` + logTimestamp + `\+|^` + logTimestamp + `[ +]|section_(?:start|end):\d+:[\w.-]+(?:\[[^\]\r\n]*\])?\r?|\x1b\[[0-9;]*[A-Za-z]`)

// Log returns the log of a job, "" if the check is not a job.
func (c *Client) Log(ctx context.Context, check forge.Check) (string, error) {
	m := jobURL().FindStringSubmatch(check.URL)
	if m == nil || !strings.HasPrefix(check.URL, c.place.URL+"/") {
		return "", nil
	}
	var data []byte
	if _, err := c.requestOwn(ctx, http.MethodGet, "/jobs/"+m[1]+"/trace", nil, &data); err != nil {
		return "", err
	}
	return logDecoration().ReplaceAllString(string(data), ""), nil
}
