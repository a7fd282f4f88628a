package delivery

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Our part of a pull request's text stands between these markers. The text outside them belongs to people.
const (
	beginMark = "<!-- trellis:begin -->"
	endMark   = "<!-- trellis:end -->"
)

const (
	maxBody     = 64_000 // bytes; GitHub takes 65,536 characters
	maxTemplate = 20_000
	maxSummary  = 8_000
	maxCell     = 500
)

// body returns the text of a new pull request: our part, followed by the repository's template.
func body(main string, w Work) string {
	t := template(main)
	return appendTemplate(section(w, maxBody-len(appendTemplate("", t))), t)
}

// appendTemplate returns text followed by template, if there is one.
func appendTemplate(text, template string) string {
	if template == "" {
		return text
	}
	return text + "\n\n" + template
}

// replaceSection returns the text of a pull request with our part brought up to date, and false if our part isn't in it.
func (m mask) replaceSection(text string, section func(room int) string) (string, bool) {
	before, rest, ok := strings.Cut(text, beginMark)
	if !ok {
		return text, false
	}
	old, after, ok := strings.Cut(rest, endMark)
	if !ok {
		return text, false
	}
	now := m.hide(section(maxBody - len(before) - len(after)))
	if now == beginMark+strings.ReplaceAll(old, "\r\n", "\n")+endMark {
		return text, true
	}
	return before + now + after, true
}

// section returns our part of the text, in at most room bytes.
func section(w Work, room int) string {
	end := facts(w) + endMark
	top := beginMark + "\n"
	return top + fit(summary(w.Summary)+undecidedWarning(w)+changedChecksWarning(w.Report.Checks.Defining)+criteria(w.Report.Criteria)+checks(w.Report.Checks.Results), room-len(top)-len(end)) + end
}

const truncatedNote = "\n*What is missing here is in report.md of the task.*\n\n"

// fit cuts text to at most room bytes, at the end of a line.
func fit(text string, room int) string {
	if len(text) <= room {
		return text
	}
	room -= len(truncatedNote)
	if room <= 0 {
		return ""
	}
	return text[:strings.LastIndexByte(text[:room], '\n')+1] + truncatedNote
}

// summary returns the beginning of prd.md: the text below the title, up to the first section.
func summary(prd string) string {
	var b strings.Builder
	for line := range strings.Lines(prd) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			if strings.TrimSpace(b.String()) != "" {
				break
			}
			continue
		}
		if b.Len()+len(line) > maxSummary {
			break
		}
		b.WriteString(escape(line) + "\n")
	}
	if strings.TrimSpace(b.String()) == "" {
		return ""
	}
	return strings.TrimSpace(b.String()) + "\n\n"
}

func undecidedWarning(w Work) string {
	if w.Report.Executed {
		return ""
	}
	what, why := w.Report.Undecided()
	return fmt.Sprintf("> **%s**: %s. The verdict is the agents' own.\n\n", what, why)
}

// changedChecksWarning returns a warning that names the changed files which define what the checks do.
func changedChecksWarning(files []string) string {
	if len(files) == 0 {
		return ""
	}
	list := make([]string, len(files))
	for i, name := range files {
		list[i] = code(name)
	}
	return "> **Look at the checks**: these files say what they do, and were changed: " + strings.Join(list, ", ") + "\n\n"
}

func criteria(list []pipeline.CriterionResult) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## Acceptance criteria\n\n| | Criterion | Level | Verdict | Evidence |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range list {
		level := "must"
		if c.Should {
			level = "should"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(c.ID), cell(c.Text), level, cell(c.Verdict), cell(c.Evidence))
	}
	return b.String() + "\n"
}

func checks(list []pipeline.CommandResult) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## Checks\n\n| Command | Exit code | Seconds |\n| --- | --- | --- |\n")
	for _, c := range list {
		forgiven := ""
		if c.Forgiven {
			forgiven = ", as at base"
		}
		fmt.Fprintf(&b, "| %s | %d%s | %.1f |\n", code(c.Command), c.Code, forgiven, c.Seconds)
	}
	return b.String() + "\n"
}

// facts returns the lines that are never cut off.
func facts(w Work) string {
	var b strings.Builder
	if w.Report.Stacked != "" {
		fmt.Fprintf(&b, "Stacked on %s (%s): merge that first.\n\n", code(w.Report.Stacked), code(w.StackedBranch))
	}
	for _, p := range w.parts {
		b.WriteString(p.mention())
	}
	fmt.Fprintf(&b, "- Task: %s\n- Commit: %s\n- Rounds: %d\n- %s\n", code(w.Path), w.Report.Commit, w.Report.Rounds, escape(pipeline.UsageText(w.Report.Usage)))
	return b.String()
}

// escape makes one line written by a person or a model show literally: no markup, table rows, mentions or references to issues
// (which could close them), and no GitLab quick action, which is a line that begins with a slash.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	s = markupEscapes().Replace(s)
	if strings.HasPrefix(s, "/") {
		s = `\` + s
	}
	return issueReference().ReplaceAllString(s, "${1}\u200b${2}")
}

var markupEscapes = sync.OnceValue(func() *strings.Replacer {
	list := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b"}
	for _, c := range "\\`*_[]|~" {
		list = append(list, string(c), "\\"+string(c))
	}
	return strings.NewReplacer(list...)
})

// issueReference matches what a forge takes for the number of an issue or a merge request: #12, GH-12, GL-12, !12, and their addresses.
var issueReference = trellis.Pattern(`(?i)(#|gh-|gl-|!|/(?:issues|pull|discussions|merge_requests|work_items)/)(\d)`)

func cell(s string) string { return escape(short(s)) }

// code formats s as a code span in a table. Code spans have no escapes, so what could be one of our markers is broken up.
func code(s string) string {
	s = strings.ReplaceAll(short(s), "|", `\|`)
	s = strings.NewReplacer("<!--", "<\u200b!--", "-->", "--\u200b>").Replace(s)
	if s == "" {
		return ""
	}
	longest := text.Backticks(s)
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		s = " " + s + " "
	}
	return fence + s + fence
}

func short(s string) string { return text.Cut(text.OneLine(s), maxCell) }

// gitlabTemplates is the folder of GitLab's templates. GitLab uses default.md if nobody chooses one.
const gitlabTemplates = ".gitlab/merge_request_templates"

// template returns the pull request template in the repository's main checkout, or "" if there is none. It doesn't follow
// symbolic links that lead out of the checkout.
func template(main string) string {
	for _, dir := range []string{".github", gitlabTemplates, ".", "docs"} {
		entries, err := durable.ReadDirBelow(main, dir)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool {
			name := strings.ToLower(e.Name())
			return e.Type().IsRegular() && (name == "pull_request_template.md" || name == "pull_request_template.txt" || dir == gitlabTemplates && name == "default.md")
		})
		if i < 0 {
			continue
		}
		if text := readTemplate(main, dir+"/"+entries[i].Name()); text != "" {
			return text
		}
	}
	return ""
}

func readTemplate(main, name string) string {
	f, err := durable.OpenBelow(main, name, durable.AnySize)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTemplate))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(data), "\r\n", "\n"), ""))
}
