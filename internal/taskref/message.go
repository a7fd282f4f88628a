package taskref

import (
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// fields returns the trailers in the message of a state.
func (s *State) fields() []field {
	return []field{
		{"Machine", textOf(&s.Claim.Machine)}, {"Host", textOf(&s.Claim.Host)}, {"Since", timeOf(&s.Claim.Since)},
		{"Status", textOf((*string)(&s.Status))}, {"Until", timeOf(&s.Until)},
		{"Branch", textOf(&s.Branch)}, {"Head", textOf(&s.Head)}, {"Work", textOf(&s.Work)}, {"Worker", textOf(&s.Worker)},
		{"At", timeOf(&s.At)}, {"By", textOf(&s.By)}, {"From", textOf(&s.From)}, {"Build", textOf(&s.Build)}, {"Turn", timeOf(&s.Turn)}, {"Spent", value{s.Spending.text, s.Spending.parse}},
	}
}

type field struct {
	key   string
	value value
}

// value gets and sets a field as text; "" means that it is missing.
type value struct {
	get func() string
	set func(string)
}

func textOf(s *string) value {
	return value{func() string { return trellis.VisibleLine(*s) }, func(said string) { *s = said }}
}

func timeOf(t *time.Time) value {
	get := func() string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return value{get, func(said string) { *t, _ = time.Parse(time.RFC3339Nano, said) }} // an invalid time counts as missing
}

func (s *State) message(why string) string {
	var b strings.Builder
	b.WriteString("trellis: " + trellis.VisibleLine(why) + "\n\n")
	for _, f := range s.fields() {
		if value := f.value.get(); value != "" {
			b.WriteString(f.key + ": " + value + "\n")
		}
	}
	return b.String()
}

var commitID = trellis.Pattern(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// parseState parses the state in a commit's message. It may have been written by anybody who can push.
func parseState(task, commit, message string) (s State, ok bool) {
	s.Task, s.Commit = task, commit
	subject, body, _ := strings.Cut(message, "\n\n")
	if !taskdir.ValidID(task) || !strings.HasPrefix(subject, "trellis: ") {
		return s, false
	}
	values := map[string]string{}
	for line := range strings.Lines(body) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok && value == trellis.VisibleLine(value) {
			values[key] = value
		}
	}
	for _, f := range s.fields() {
		f.value.set(values[f.key])
	}
	if s.Branch == "" {
		return s, s.Head == "" && s.Work == ""
	}
	return s, git.CheckBranchName(s.Branch) == nil && commitID().MatchString(s.Head) && commitID().MatchString(s.Work)
}
