package roadmap

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cellText returns the text of a cell without comments and with escaped bars unescaped. An unterminated comment extends to the end
// of the cell: it contained a bar.
func cellText(raw string) string {
	text, _ := cutComments(raw)
	return strings.TrimSpace(strings.ReplaceAll(text, `\|`, "|"))
}

// cutComments separates the text of a cell from its comments.
func cutComments(raw string) (string, []string) {
	if !strings.Contains(raw, "<!--") {
		return raw, nil
	}
	var text strings.Builder
	var comments []string
	for {
		from := strings.Index(raw, "<!--")
		if from < 0 {
			text.WriteString(raw)
			return text.String(), comments
		}
		text.WriteString(raw[:from])
		end := strings.Index(raw[from:], "-->")
		if end < 0 {
			return text.String(), append(comments, strings.TrimSpace(raw[from:]))
		}
		comments = append(comments, raw[from:from+end+3])
		raw = raw[from+end+3:]
	}
}

// marks are the marks around bold, struck out, italic and code text.
var marks = []string{"**", "__", "~~", "*", "_", "`"}

// plainText returns s without the marks around all of it, and with the text of a link instead of the link.
func plainText(s string) string {
	for {
		s = stripMarks(s)
		words, _, ok := link(s)
		if !ok {
			return s
		}
		s = words
	}
}

// stripMarks returns s without the marks around all of it.
func stripMarks(s string) string {
	for i := 0; i < len(marks); i++ {
		s = strings.TrimSpace(s)
		w := marks[i]
		if len(s) > 2*len(w) && strings.HasPrefix(s, w) && strings.HasSuffix(s, w) && !strings.Contains(s[len(w):len(s)-len(w)], w) {
			s, i = s[len(w):len(s)-len(w)], -1
		}
	}
	return strings.TrimSpace(s)
}

// link splits [words](address).
func link(s string) (words, address string, ok bool) {
	if !strings.HasPrefix(s, "[") || !strings.HasSuffix(s, ")") || strings.Count(s, "](") != 1 {
		return "", "", false
	}
	words, address, _ = strings.Cut(s[1:len(s)-1], "](")
	return words, address, true
}

// stepID returns the id in a cell, without marks, without the word step before it, and without a check mark for done.
func stepID(cell string) string {
	id := plainText(strings.Trim(plainText(cell), checkMarks+" "))
	for _, word := range []string{"step ", "node "} {
		if rest := withoutPrefix(id, word); rest != "" {
			id = rest
		}
	}
	return id
}

// isStruckOut reports whether all of a cell is struck out.
func isStruckOut(cell string) bool {
	cell = strings.TrimSpace(cell)
	return len(cell) > 4 && strings.HasPrefix(cell, "~~") && strings.HasSuffix(cell, "~~")
}

// isEmptyCell reports whether a cell is empty or a dash, which means that there is nothing in it.
func isEmptyCell(s string) bool { return s == "" || s == "-" || s == "–" || s == "—" }

// reference is the content of a PR cell.
type reference struct {
	plan    string
	prs     []string
	invalid bool // neither
}

var (
	planWord   = trellis.Pattern(`(?i)^plan(?:\s*:\s*|\s+|$)`)
	pullWord   = trellis.Pattern(`\[[^\[\]]*\]\([^()\s]*\)|https?://[^\s,;()]+/(?:pull|pulls|merge_requests)/\d+[^\s,;()]*|[\w.-]+/[\w.-]+[#!]\d+|[#!]\d+`)
	pullNumber = trellis.Pattern(`(?:[\w.-]+/[\w.-]+)?[#!]\d+`)
	pullPath   = trellis.Pattern(`/(?:pull|pulls|merge_requests)/(\d+)`)
)

// readReference parses a PR cell: nothing, pull requests, or the plan of the step.
func readReference(cell string) reference {
	cell = stripMarks(cell)
	if isEmptyCell(cell) {
		return reference{}
	}
	if n := planWord().FindString(cell); n != "" {
		plan := plainText(cell[len(n):])
		return reference{plan: plan, invalid: plan == "" || strings.ContainsAny(plan, " \t,")}
	}
	if isNumberReference(cell) { // the most common form
		return reference{prs: []string{cell}}
	}
	var prs []string
	rest := pullWord().ReplaceAllStringFunc(cell, func(m string) string {
		if pr := pullRequestIn(m); pr != "" {
			prs = append(prs, pr)
			return " "
		}
		return m
	})
	for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" \t,;&*_~`()"+checkMarks, r) }) {
		if !slices.Contains([]string{"and", "pr", "prs", "merged"}, strings.ToLower(word)) {
			return reference{invalid: true}
		}
	}
	return reference{prs: prs, invalid: len(prs) == 0}
}

// isNumberReference reports whether s is of the form #12.
func isNumberReference(s string) bool {
	digits, ok := strings.CutPrefix(s, "#")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// pullRequestIn returns the pull request that a word or a link of a PR cell names.
func pullRequestIn(word string) string {
	words, address, isLink := link(word)
	if !isLink {
		return word
	}
	if m := pullNumber().FindString(words); m != "" {
		return m
	}
	if m := pullPath().FindStringSubmatch(address); m != nil {
		return "#" + m[1]
	}
	return ""
}

const (
	checkMarks = "✅✔✓☑\uFE0F" // including the emoji variation selector
	stateMarks = checkMarks + "🚫⛔⏭🔄⏳🚧"
)

// readStatus returns the state in a Status cell, "" for an empty cell, and whether it is known.
func readStatus(cell string) (State, bool) {
	word := strings.ToLower(plainText(cell))
	if isEmptyCell(word) {
		return "", true
	}
	word = strings.Trim(word, stateMarks+" ")
	switch strings.NewReplacer("_", " ", "-", " ").Replace(word) {
	case "": // only a mark
		if strings.ContainsAny(cell, "✅✔✓☑") {
			return Done, true
		}
		return "", false
	case "pending", "todo", "to do", "open", "not started":
		return Pending, true
	case "planning":
		return Planning, true
	case "in progress":
		return InProgress, true
	case "done", "complete", "completed", "merged":
		return Done, true
	case "blocked":
		return Blocked, true
	case "skipped":
		return Skipped, true
	}
	return "", false
}
