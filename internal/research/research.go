// Package research reads research.md, in which an agent describes the code base: the context for each phase, the scope, the files
// to leave alone, and the commands that prove work. Commands are checked against the project: one that can't run there, or can't
// fail, does not count.
package research

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Report is a parsed research.md.
type Report struct {
	Context   map[string][]Citation // by context file: implement.jsonl, check.jsonl, debug.jsonl
	Scope     string
	Commands  []string // commands below Verification Plan, lint before test before build
	Protected []string // files not to modify
	Notes     string   // text below Technical Notes, with its headings turned into bold text
}

// Citation is a path that the research names for a phase.
type Citation struct {
	Line         int
	Path, Reason string
}

// ContextFiles are the context files that research fills.
var ContextFiles = []string{"implement.jsonl", "check.jsonl", "debug.jsonl"}

// Parse reads a research.md. Headings and lists in code blocks don't count.
func Parse(src []byte) Report {
	doc := goldmark.DefaultParser().Parse(text.NewReader(src))
	res := Report{Context: map[string][]Citation{}}
	var commands []command
	section := ""
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			section = normalizeHeading(string(blockText(h, src)))
			continue
		}
		switch {
		case slices.Contains(ContextFiles, section):
			for _, it := range items(n, src) {
				if c, ok := parseCitation(it); ok {
					res.Context[section] = append(res.Context[section], c)
				}
			}
		case section == "suggested scope" && res.Scope == "":
			res.Scope = firstWord(string(blockText(n, src)))
		case section == "verification plan":
			commands = append(commands, commandsOf(n, src)...)
		case section == "risks":
			for _, it := range items(n, src) {
				res.Protected = append(res.Protected, protectedPaths(it.text)...)
			}
		}
	}
	res.Notes = technicalNotes(doc, src)
	slices.SortStableFunc(commands, func(a, b command) int { return a.kind - b.kind })
	for _, c := range commands {
		if !slices.Contains(res.Commands, c.line) {
			res.Commands = append(res.Commands, c.line)
		}
	}
	return res
}

// normalizeHeading returns a heading in lower case, without the marks that models put around it.
func normalizeHeading(s string) string {
	return strings.ToLower(strings.Trim(strings.TrimSpace(s), "`*_: "))
}

// item is one bullet: its own text, without that of nested lists.
type item struct {
	line int
	text string
	code []string // its code spans
}

func items(n ast.Node, src []byte) (list []item) {
	_ = ast.Walk(n, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		li, ok := n.(*ast.ListItem)
		if !ok || !enter || li.FirstChild() == nil {
			return ast.WalkContinue, nil
		}
		first := li.FirstChild()
		it := item{text: string(blockText(first, src)), code: codeSpans(first, src)}
		if first.Lines() != nil && first.Lines().Len() > 0 {
			it.line = 1 + strings.Count(string(src[:first.Lines().At(0).Start]), "\n")
		}
		list = append(list, it)
		return ast.WalkContinue, nil
	}) // the walker above never fails
	return list
}

// blockText returns the source of a block's lines, joined by spaces.
func blockText(n ast.Node, src []byte) []byte {
	if n.Type() == ast.TypeInline || n.Lines() == nil {
		return nil
	}
	var b []byte
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		b = append(append(b, strings.TrimSpace(string(seg.Value(src)))...), ' ')
	}
	if len(b) == 0 && n.FirstChild() != nil {
		return blockText(n.FirstChild(), src)
	}
	return b
}

func codeSpans(n ast.Node, src []byte) (list []string) {
	_ = ast.Walk(n, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		cs, ok := n.(*ast.CodeSpan)
		if ok && enter {
			var b strings.Builder
			for c := cs.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					b.Write(t.Segment.Value(src))
				}
			}
			list = append(list, strings.TrimSpace(b.String()))
		}
		return ast.WalkContinue, nil
	}) // the walker above never fails
	return list
}

// parseCitation reads "path: P, reason: R" in the ways models write it: with backticks, bold, without either word.
func parseCitation(it item) (Citation, bool) {
	s := strings.TrimSpace(strings.NewReplacer("**", "", "`", "").Replace(it.text))
	s = strings.TrimSpace(s[cmp.Or(labelLength(s, "path"), labelLength(s, "file")):])
	path, reason := s, ""
	if i := strings.Index(strings.ToLower(s), "reason:"); i >= 0 {
		path, reason = s[:i], s[i+len("reason:"):]
	} else if i := strings.IndexAny(s, " \t"); i >= 0 {
		path, reason = s[:i], strings.TrimLeft(s[i:], " \t-–—:,(")
	}
	path = strings.Trim(path, " \t,;:*\"'")
	reason = strings.TrimSpace(reason)
	return Citation{it.line, path, reason}, path != "" && !strings.EqualFold(path, "none") && !strings.ContainsAny(path, " \t")
}

// labelLength returns the length of "word:" at the start of s, in any letter case, or 0.
func labelLength(s, word string) int {
	if len(s) > len(word) && strings.EqualFold(s[:len(word)], word) && s[len(word)] == ':' {
		return len(word) + 1
	}
	return 0
}

func firstWord(s string) string {
	for _, w := range strings.Fields(s) {
		w = strings.Trim(w, "`*_.,:;\"'()")
		if w != "" && strings.IndexFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
		}) < 0 {
			return strings.ToLower(w)
		}
	}
	return ""
}

// protectedPaths returns the paths in a risk that says not to modify them.
func protectedPaths(s string) (paths []string) {
	low := strings.ToLower(s)
	if !strings.Contains(low, "not modify") && !strings.Contains(low, "not to modify") && !strings.Contains(low, "don't modify") && !strings.Contains(low, "not touch") {
		return nil
	}
	for _, w := range strings.Fields(s) {
		w = strings.Trim(w, "`*_,:;\"'()")
		w = strings.TrimSuffix(w, ".")
		if strings.ContainsAny(w, "./") && !strings.Contains(w, "..") && !strings.HasPrefix(w, "/") {
			paths = append(paths, w)
		}
	}
	return paths
}
