package roadmap

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrNoStep means that a roadmap has no step with that id.
	ErrNoStep = errors.New("no such step")
	// ErrNoCell means that a step's table has no column with that name.
	ErrNoCell = errors.New("no such column")
)

// set returns the roadmap with a cell of a step set to value and no other byte changed. Bars in the value are escaped, and
// comments in the cell are kept. A change that [Parse] would refuse is an error. Errors match ErrNoStep and ErrNoCell.
func (r *Roadmap) set(step string, c Cell, value string) (*Roadmap, error) {
	s := r.Step(step)
	if s == nil {
		return nil, fmt.Errorf("writing to step %s: %w", step, ErrNoStep)
	}
	value = strings.TrimSpace(value)
	if strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
		return nil, fmt.Errorf("writing %q to step %s: not a line of text", value, step)
	}
	if value = s.source.format(c, value); s.Text(c) == value {
		return r, nil
	}
	ch, err := s.source.set(r.src, c, value)
	if err != nil {
		return nil, fmt.Errorf("writing to step %s: %w", step, err)
	}
	now, err := r.parseChanged(ch)
	if err == nil {
		err = r.checkOnlyChanged(now, s, c, value)
	}
	if err != nil {
		return nil, fmt.Errorf("writing %q to step %s: %w", value, step, err)
	}
	return now, nil
}

// parseChanged parses the changed file.
func (r *Roadmap) parseChanged(ch change) (*Roadmap, error) {
	out := make([]byte, 0, len(r.src)+len(ch.text))
	out = append(append(append(out, r.src[:ch.from]...), ch.text...), r.src[ch.to:]...)
	return Parse(r.Name, out)
}

// checkOnlyChanged checks that a changed file is read like the old one, except for one cell.
func (r *Roadmap) checkOnlyChanged(now *Roadmap, s *Step, c Cell, value string) error {
	if len(now.Steps) != len(r.Steps) {
		return errors.New("the table would fall apart")
	}
	for i := range r.Steps {
		was, is := r.Steps[i], &now.Steps[i]
		if was.ID == s.ID {
			*map[Cell]*string{Status: &was.status, PR: &was.pr, Plan: &was.plan}[c] = value
		}
		if is.ID != was.ID || is.Description != was.Description || is.status != was.status || is.pr != was.pr || is.plan != was.plan {
			return fmt.Errorf("step %s would be read as something else", was.ID)
		}
	}
	return nil
}

// tableRow is a step's row in a table.
type tableRow struct {
	table *table
	row   row
}

func (p *tableRow) format(_ Cell, value string) string { return value }

func (p *tableRow) set(src []byte, c Cell, value string) (change, error) {
	n := p.table.columnFor(c)
	if n < 0 {
		return change{}, fmt.Errorf("the table has no %s column: %w", c, ErrNoCell)
	}
	value = strings.ReplaceAll(value, "|", `\|`)
	if n >= len(p.row.cells) {
		return p.addCells(n, value), nil
	}
	at := p.row.cells[n]
	old := string(src[at.from:at.to])
	_, comments := cutComments(p.row.raw(src, n))
	text := strings.TrimSpace(strings.Join(append([]string{value}, comments...), " "))
	last := at.to == p.row.end
	return change{at.from, at.to, fillCell(old, text, last)}, nil
}

// addCells adds the cells that a row lacks, up to the nth.
func (p *tableRow) addCells(n int, value string) change {
	text := strings.Repeat(" |", n-len(p.row.cells)) + " " + value
	if p.row.closed {
		return change{p.row.end, p.row.end, text + " |"}
	}
	return change{p.row.end, p.row.end, " |" + text}
}

// fillCell returns a cell with another text: the space around the text is kept, and so is its width if the text is not too long. If
// last, the cell is the last of a row without a final bar, and has no space after it.
func fillCell(old, text string, last bool) string {
	body := strings.TrimSpace(old)
	lead, trail := " ", " "
	if body != "" {
		at := strings.Index(old, body)
		lead, trail = old[:at], old[at+len(body):]
	}
	if last {
		return lead + text
	}
	trail = strings.TrimRight(trail, " \t\r\v\f")
	room := utf8.RuneCountInString(old) - utf8.RuneCountInString(lead+text)
	if body == "" || old != lead+body || strings.HasSuffix(text, `\`) {
		room = max(room, 1)
	}
	return lead + text + trail + strings.Repeat(" ", max(room, 0))
}
