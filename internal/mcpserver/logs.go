package mcpserver

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// keptLogs is how many logs are kept open.
const keptLogs = 8

// logs are the open logs of the tasks that the client reads.
type logs struct {
	mu   sync.Mutex
	open []*taskLog // the one that was read last comes last
}

// taskLog is the log of a task as far as it was read.
type taskLog struct {
	*terminal.Scroll
	dir       string
	openingID string // part of its cursors: a cursor of the same log, opened at another time, may count other lines
}

// openLog returns the log of the task in a directory.
func (l *logs) openLog(dir string) *taskLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.open, func(one *taskLog) bool { return one.dir == dir }); i >= 0 {
		one := l.open[i]
		l.open = append(slices.Delete(l.open, i, i+1), one)
		return one
	}
	if len(l.open) == keptLogs {
		l.open = slices.Delete(l.open, 0, 1)
	}
	log := &status.Log{Dir: dir, Decode: agents.Decoder}
	one := &taskLog{terminal.NewScroll(log, "trellis logs --full "+trellis.ShellWord(nameOf(dir))), dir, rand.Text()[:6]}
	l.open = append(l.open, one)
	return one
}

type logArguments struct {
	Task   string `json:"task" jsonschema:"name from task_list"`
	Limit  int    `json:"limit,omitempty" jsonschema:"lines, 1 to 400, default 60"`
	Cursor string `json:"cursor,omitempty" jsonschema:"newer or older of an earlier answer; default: the end"`
	Before bool   `json:"before,omitempty" jsonschema:"return lines before the cursor, not from it on"`
}

type logAnswer struct {
	Note  string   `json:"note"`
	Task  string   `json:"task"`
	Lines []string `json:"lines"`
	Older string   `json:"older,omitempty"` // cursor, with before, for the lines before these
	Newer string   `json:"newer"`           // cursor for what comes after these, now or later
}

// maxLineWidth is how many characters of a line are shown.
const maxLineWidth = 400

func (s *Server) readLogs(_ context.Context, p *app.Project, in logArguments) (any, error) {
	most, err := pageLimit(in.Limit, 60, 400)
	if err != nil {
		return nil, err
	}
	dir, err := find(p, in.Task)
	if err != nil {
		return nil, err
	}
	id, log := nameOf(dir), s.logs.openLog(dir)
	all, end, _ := log.Since(0, 0)
	first := end - len(all)
	from, to := first, end // the lines that may be shown: the last ones are, unless there is a cursor
	tail := true
	if in.Cursor != "" {
		at, err := parseCursor(in.Cursor, "task_logs")
		if err != nil {
			return nil, err
		}
		if at.source != log.openingID || at.offset > end {
			return nil, app.WithHints(app.Usagef("the cursor is of an earlier look"), callHint("task_logs", id))
		}
		if tail = in.Before; in.Before {
			to = max(at.offset, first)
		} else {
			from = max(at.offset, first)
		}
	}
	lines := logLines(all[from-first : to-first])
	n, err := fittingCountFrom(lines, most, tail)
	if err != nil {
		return nil, err
	}
	if tail {
		from = to - n
	} else {
		to = from + n
	}
	a := logAnswer{Note: dataNote, Task: id, Lines: logLines(all[from-first : to-first]), Newer: cursor{log.openingID, to}.String()}
	if from > first {
		a.Older = cursor{log.openingID, from}.String()
	}
	return a, nil
}

// fittingCountFrom is fittingCount, or with tail, fittingCount for the last entries of a list.
func fittingCountFrom(lines []string, most int, tail bool) (int, error) {
	if tail {
		lines = slices.Clone(lines)
		slices.Reverse(lines)
	}
	return fittingCount(lines, most, maxPage)
}

func logLines(list []terminal.ScrollLine) []string {
	lines := []string{}
	for _, l := range list {
		lines = append(lines, clip(strings.TrimSpace(l.At+" "+l.Text), maxLineWidth))
	}
	return lines
}
