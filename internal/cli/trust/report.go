package trust

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// report is what `trellis trust --json` prints.
type report struct {
	Trusted  bool            `json:"trusted"`
	Branch   string          `json:"branch"` // the trusted branch, and how it was chosen
	Subjects []subjectReport `json:"subjects"`
}

type subjectReport struct {
	Subject string          `json:"subject"`
	Trusted bool            `json:"trusted"`
	Agreed  bool            `json:"agreed"` // in this call
	Foreign []trust.Foreign `json:"foreign"`
	Next    string          `json:"next,omitempty"`
}

func (r *report) add(v trust.Verdict, agreed bool) {
	s := subjectReport{Subject: v.Subject, Trusted: agreed || v.Trusted(), Agreed: agreed, Foreign: append([]trust.Foreign{}, v.Foreign...)}
	var untrusted *trust.UntrustedError
	if !s.Trusted && errors.As(v.Err(), &untrusted) {
		s.Next = untrusted.Next()
	}
	r.Trusted = r.Trusted && s.Trusted
	r.Subjects = append(r.Subjects, s)
}

// printVerdict prints each untrusted item in full, those that run before those that are read, with nothing invisible.
func printVerdict(w io.Writer, e *trust.UntrustedError) {
	fmt.Fprintln(w, trellis.VisibleLine(e.Error())+":")
	list := slices.Clone(e.Verdict.Foreign)
	slices.SortStableFunc(list, func(x, y trust.Foreign) int { return rank(x) - rank(y) })
	last := ""
	const most = 50 // commits of a base
	for n, f := range list {
		if f.Item.Kind == trust.CommitKind && n == most {
			fmt.Fprintf(w, "  and %s more\n", text.Count(len(list)-n, "commit"))
			return
		}
		if from := origin(f); from != last {
			fmt.Fprintf(w, "  %s\n", trellis.VisibleLine(from))
			last = from
		}
		printItem(w, f.Item)
	}
}

// rank sorts items that run before the others. A stable sort keeps items of one commit together.
func rank(f trust.Foreign) int {
	if f.Item.Kind.Runs() {
		return 0
	}
	return 1
}

func origin(f trust.Foreign) string {
	if f.Commit == "" {
		return "from an unknown author"
	}
	text := fmt.Sprintf("commit %s by %s, %s", shortCommit(f.Commit), cmp.Or(f.Author, "nobody"), f.Date.Local().Format("2006-01-02"))
	if f.Item.Kind == trust.CommitKind {
		_, title, _ := strings.Cut(f.Item.Text, " ")
		text += ": " + title
	}
	return text
}

func printItem(w io.Writer, i trust.Item) {
	if i.Kind == trust.CommitKind {
		return // origin names it
	}
	where := i.File
	if i.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, i.Line)
	}
	lines := strings.Split(strings.TrimSpace(i.Shown()), "\n")
	fmt.Fprintf(w, "    %-12s %s   (%s)\n", i.Kind, trellis.VisibleLine(lines[0]), trellis.VisibleLine(where))
	for _, line := range lines[1:] {
		fmt.Fprintf(w, "    %-12s %s\n", "", trellis.VisibleLine(line))
	}
}
