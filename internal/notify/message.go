package notify

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	// maxTitle and maxLine limit text by tasks and agents, in bytes.
	maxTitle = 120
	maxLine  = 300
	// maxDetailed is how many events a message shows in full; if there are more, it shows their number and the first names.
	maxDetailed = 3
	maxNamed    = 5
)

// message is what a person gets: plain text that is not escaped for any markup yet.
type message struct {
	id     string // the same for the same events
	title  string
	lines  []string
	link   string // of a pull request, if the message is about one; already checked
	urgent bool   // something failed or stopped
}

func (m message) body() string { return strings.Join(m.lines, "\n") }

// topics returns the topics of an event, the most important first; none if people are not told of it.
func topics(e *Event) []string {
	switch {
	case e.Event == config.Spent || e.Event == config.Watcher:
		return []string{e.Event}
	case e.Event != "":
		return nil
	case e.Status == trellis.Review && e.Outcome == trellis.Delivered && e.Failure.Code == "":
		return []string{config.Delivered, config.NeedsYou}
	case e.Status == trellis.Review, e.Status == trellis.Waiting, e.Status == trellis.Rejected:
		return []string{config.NeedsYou}
	case e.Status == trellis.Failed:
		return []string{config.IsFailed}
	case e.Status == trellis.Completed && e.Outcome == trellis.NoChangeNeeded:
		return []string{config.Delivered}
	}
	return nil
}

// compose combines events into one message.
func compose(id string, events []*Event) message {
	m := message{id: id}
	for _, e := range events {
		m.urgent = m.urgent || e.Status == trellis.Failed || e.Event == config.Watcher
	}
	if len(events) == 1 {
		m.title, m.lines, m.link = headline(events[0]), details(events[0]), link(events[0])
		return m
	}
	m.title = "Trellis: " + counts(events)
	if len(events) <= maxDetailed {
		for i, e := range events {
			if i > 0 {
				m.lines = append(m.lines, "")
			}
			m.lines = append(append(m.lines, strings.TrimPrefix(headline(e), "Trellis: ")), details(e)...)
		}
		return m
	}
	for _, topic := range config.Topics {
		if list := eventsAbout(events, topic); len(list) > 0 {
			m.lines = append(m.lines, countPhrase(topic, len(list))+": "+taskNames(list))
		}
	}
	m.lines = append(m.lines, "next: trellis status")
	return m
}

func eventsAbout(events []*Event, topic string) (list []*Event) {
	for _, e := range events {
		if t := topics(e); len(t) > 0 && t[0] == topic {
			list = append(list, e)
		}
	}
	return list
}

func counts(events []*Event) string {
	var parts []string
	for _, topic := range config.Topics {
		if n := len(eventsAbout(events, topic)); n > 0 {
			parts = append(parts, countPhrase(topic, n))
		}
	}
	return strings.Join(parts, ", ")
}

func countPhrase(topic string, n int) string {
	switch topic {
	case config.NeedsYou:
		if n == 1 {
			return "1 task needs you"
		}
		return fmt.Sprintf("%d tasks need you", n)
	case config.IsFailed:
		return fmt.Sprintf("%d failed", n)
	case config.Delivered:
		return fmt.Sprintf("%d delivered", n)
	case config.Spent:
		return text.Count(n, "budget") + " nearly used up"
	}
	return "the watcher stopped"
}

// taskNames lists the first of the tasks that events are about.
func taskNames(events []*Event) string {
	var list []string
	for _, e := range events[:min(len(events), maxNamed)] {
		list = append(list, plainLine(firstNonBlank(e.Task, e.Title), maxTitle))
	}
	if more := len(events) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

func headline(e *Event) string {
	return "Trellis: " + plainLine(firstNonBlank(e.Title, e.Task), maxTitle) + ": " + stateText(e)
}

func stateText(e *Event) string {
	t := topics(e)
	switch {
	case e.Event == config.Spent:
		return "80 % used"
	case e.Event == config.Watcher:
		return "stopped"
	case slices.Equal(t, []string{config.Delivered}):
		return "done, nothing to change"
	case slices.Contains(t, config.Delivered):
		return "delivered, to be reviewed"
	case e.Status == trellis.Review:
		return "in review"
	case e.Status == trellis.Waiting:
		return "waiting for you"
	}
	return string(e.Status)
}

// details returns the lines about one event: reason, usage, place, next command.
func details(e *Event) (lines []string) {
	add := func(name, value string) {
		if value = plainLine(value, maxLine); value != "" {
			lines = append(lines, name+value)
		}
	}
	add("", e.Failure.Detail)
	add("step: ", e.Step)
	if e.Usage.Seconds > 0 || e.Usage.Tokens() > 0 {
		add("used: ", text.Usage(e.Usage))
	}
	if url := link(e); url != "" {
		lines = append(lines, "pull request: "+url)
	} else if e.Event == "" {
		add("branch: ", e.Branch)
	}
	add("next: ", nextCommand(e))
	return lines
}

// nextCommand returns the command with which a person continues.
func nextCommand(e *Event) string {
	switch {
	case e.Event == config.Watcher:
		return "trellis watch"
	case e.Event == config.Spent && e.Task == "":
		return "trellis stats --by day"
	case e.Event != "" || e.Status == trellis.Failed || e.Status == trellis.Rejected || e.Status == trellis.Completed:
		return "trellis status " + trellis.ShellWord(e.Task)
	}
	return "trellis review " + trellis.ShellWord(e.Task)
}

// link returns the address of an event's pull request if it can be shown safely, else "".
func link(e *Event) string {
	u, err := url.Parse(e.PRURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(e.PRURL) > maxLine || strings.ContainsAny(e.PRURL, "<>|\"'`()[]*_~\\ ") {
		return ""
	}
	return u.String()
}

func firstNonBlank(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

// plainLine returns text by tasks and agents as one line of at most most bytes, without characters that mean more than text to a
// terminal, a mail header or a reader: control characters, and those that change the direction of text.
func plainLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return text.Cut(text.OneLine(s), most)
}

// truncate cuts a text to at most most bytes, the limit of a server, without splitting a character.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
