package board

import (
	"context"
	"html/template"
	"net/url"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/diffview"
)

// diffPage is what a task changed: every file with how it changed, and the lines of as many as fit on a page.
type diffPage struct {
	Began          bool   // something was done for the task
	Sum            string // hash of the whole diff, for comments on it
	Only           string
	Split          bool
	Files          []diffFile
	Added, Deleted int
}

// diffFile is a file of a diff, with the lines of it that are shown.
type diffFile struct {
	*diffview.File
	Rows  []diffview.Row  // in the unified layout
	Pairs []diffview.Pair // in the layout side by side
	More  int             // lines that come after those
	Rest  template.URL    // the query that shows the further lines
}

const (
	fileRows       = 400  // of a file among others
	pageRows       = 3000 // of all files together
	singleFileRows = 5000 // of a file that is shown alone
	maxFiles       = 2000 // files that are listed
)

// diffOf reads what a task changed. The query may name one file, the row to show it from, and the layout.
func (s *Server) diffOf(ctx context.Context, dir string, query url.Values) (*diffPage, error) {
	p := &diffPage{Only: query.Get("file"), Split: query.Get("layout") == "split"}
	from, err := strconv.Atoi(query.Get("from"))
	if err != nil || p.Only == "" {
		from = 0
	}
	p.Began, p.Sum, err = s.readDiff(ctx, dir, func(f *diffview.File) error {
		p.addFile(f, from)
		return nil
	})
	return p, err
}

// addFile adds a file, with as many of its lines as there is room for.
func (p *diffPage) addFile(f *diffview.File, from int) {
	p.Added, p.Deleted = p.Added+f.Added, p.Deleted+f.Deleted
	if len(p.Files) == maxFiles {
		return
	}
	one, most := diffFile{File: f}, min(fileRows, pageRows-p.rowCount())
	switch p.Only {
	case "":
	case f.Name():
		most = singleFileRows
	default:
		most = 0
	}
	if p.Split {
		one.Pairs, one.More = f.Split(from, most)
	} else {
		one.Rows, one.More = f.Unified(from, most)
	}
	if one.More > 0 {
		one.Rest = p.query(f.Name(), from+len(one.Rows)+len(one.Pairs))
	}
	f.Hunks = nil // what is shown of them is in the rows
	p.Files = append(p.Files, one)
}

func (p *diffPage) rowCount() (n int) {
	for _, f := range p.Files {
		n += len(f.Rows) + len(f.Pairs)
	}
	return n
}

// query returns the query of a page with one file from a row on, in the layout of this page.
func (p *diffPage) query(file string, from int) template.URL {
	q := url.Values{"file": {file}}
	if from > 0 {
		q.Set("from", strconv.Itoa(from))
	}
	if p.Split {
		q.Set("layout", "split")
	}
	return template.URL(q.Encode())
}

// Alone returns the query of a page with this file alone.
func (p *diffPage) Alone(file string) template.URL { return p.query(file, 0) }

// Layout returns the query of this page in the other layout.
func (p *diffPage) Layout() template.URL {
	q := url.Values{}
	if p.Only != "" {
		q.Set("file", p.Only)
	}
	if !p.Split {
		q.Set("layout", "split")
	}
	return template.URL(q.Encode())
}

// Shown reports whether any line of a file is shown.
func (f diffFile) Shown() bool { return len(f.Rows)+len(f.Pairs) > 0 }
