package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// smells warns of what is usually, but not always, a mistake in a step. Files of other tools are exempt from most of it.
func (c *checker) smells(s *placed) {
	if s.Kind() == Prompt && !c.believed(s) {
		c.step(s, "", "nothing tells whether it was done").mild("give it verify, or llm_as_judge, or a later step with a check that covers the same")
	}
	if c.p.tool != "" {
		return
	}
	if strings.Contains(strings.ToLower(s.Title), " and ") {
		c.step(s, "title", "the title names two things").mild("make it two steps, if they are")
	}
	if items := enumerated(s.Prompt); items > 2 && len(s.loops) == 0 {
		c.step(s, "prompt", "the prompt lists %d items", items).mild("let for_each go through them, and say {{item}}")
	}
	if strings.Contains(strings.ToLower(s.Prompt), "step") && backward().MatchString(s.Prompt) {
		c.step(s, "prompt", "it is told to use what an earlier step printed, which no agent sees").mild("let that step write a file with output, and name the same var in context here")
	}
	for _, t := range s.texts() {
		if found := abroad(t.value); found != "" {
			c.step(s, t.field, "%s is a path of one machine", found).mild("use one inside the repository, declared in vars")
		}
	}
}

// backward matches phrases such as "read the output of the previous step".
var backward = trellis.Pattern(`(?i)\b(?:outputs?|results?|findings|list)\s+(?:of|from)\s+(?:the\s+)?(?:previous|preceding|prior|earlier|last|above)\s+steps?\b|\b(?:previous|preceding|prior|earlier|last)\s+step(?:'s|’s|s')?\s+(?:outputs?|results?|findings)\b`)

// roots are the beginnings of paths that exist on one machine only.
var roots = []string{"/tmp/", "/home/", "/Users/", "/root/", "/var/", "/mnt/", "/opt/", "~/"}

var onOneMachine = trellis.Pattern("(?:^|[\\s\"'`=:(])(?:" + strings.Join(roots[:len(roots)-1], "|") + ")[\\w.-][^\\s\"'`);,]*|~/[\\w.][^\\s\"'`);,]*")

// abroad returns the first path in a text that exists on one machine only. Plans are checked often and few texts have such a
// path, so the regular expression is used only for texts with a root.
func abroad(text string) string {
	if !slices.ContainsFunc(roots, func(root string) bool { return strings.Contains(text, root) }) {
		return ""
	}
	return strings.Trim(onOneMachine().FindString(text), " \t\n\"'`=:(")
}

// listItem matches a list item in a prompt.
var listItem = trellis.Pattern(`^\s*(?:[-*+]|\d+[.)])\s+(.+)$`)

// enumerated returns the length of the longest run of list items in a text that are names or paths rather than sentences.
func enumerated(text string) int {
	most, run := 0, 0
	for l := range strings.Lines(text) {
		m := listItem().FindStringSubmatch(strings.TrimRight(l, "\r\n"))
		if m == nil || !isName(m[1]) {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}

// isName reports whether an item is one word, or begins with a path.
func isName(item string) bool {
	words := strings.Fields(item)
	if len(words) == 0 {
		return false
	}
	first := strings.Trim(words[0], "`*\"':,;")
	return len(words) == 1 || strings.Contains(first, "/") && path.Ext(first) != ""
}

// counts reports whether items are 1, 2, 3 and so on.
func counts(items []string) bool {
	for i, item := range items {
		if strings.TrimSpace(item) != strconv.Itoa(i+1) {
			return false
		}
	}
	return len(items) > 1
}

// numbered warns of steps that look like one step done several times.
func (c *checker) numbered(steps []Step, at string) {
	for i := 0; i < len(steps); i++ {
		stem, n := numberOf(steps[i].ID)
		from := i
		for n == 1 && i+1 < len(steps) {
			if s, next := numberOf(steps[i+1].ID); s != stem || next != i-from+2 {
				break
			}
			i++
		}
		if count := i - from + 1; count > 2 {
			c.warn(fmt.Sprintf("%s/%d/id", at, from), "steps %s to %s are numbered", steps[from].ID, steps[i].ID).Hint =
				"if they do the same, make them one step with for_each or repeat"
		}
	}
	for i, s := range steps {
		c.numbered(s.Steps, fmt.Sprintf("%s/%d/steps", at, i))
	}
}

// numberOf splits a number off the end of an id.
func numberOf(id string) (stem string, n int) {
	stem = strings.TrimRight(id, "0123456789")
	n, err := strconv.Atoi(id[len(stem):])
	if err != nil {
		return id, 0
	}
	return stem, n
}

// literals warns of paths that several steps name and that the plan does not have in vars or files. Confirmed commands are
// exempt.
func (c *checker) literals() {
	known := map[string]bool{}
	for _, f := range c.p.Files {
		known[path.Clean(f.Path)] = true
	}
	var confirmed []string
	if c.Confirmed != nil {
		confirmed = *c.Confirmed
	}
	users := map[string][]*placed{}
	for i := range c.steps {
		s := &c.steps[i]
		mine := map[string]bool{}
		for _, t := range s.texts() {
			if slices.Contains([]string{"prompt", "command", "verify"}, t.field) && !slices.Contains(confirmed, t.value) {
				for _, p := range paths(t.value) {
					mine[p] = true
				}
			}
		}
		for p := range mine {
			users[p] = append(users[p], s)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(users)) {
		if list := users[p]; len(list) > 1 && !known[p] && !c.there(p) {
			at := list[len(list)-1]
			c.step(at, "", "%s is also named in step %s", p, list[0].ID).mild("declare the path in vars")
		}
	}
}

// there reports whether a path exists in the repository.
func (c *checker) there(p string) bool {
	if c.Exists == nil {
		return false
	}
	ok, err := c.Exists(p)
	return err == nil && ok
}

// paths returns the words of a text that look like paths of files in the repository.
func paths(text string) (list []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`();,|&<>=:", r) }) {
		w = strings.TrimRight(w, ".")
		if strings.Contains(w, "/") && path.Ext(w) != "" && !strings.ContainsAny(w, "{}*$\\@?") && outside(w) == "" && !strings.HasSuffix(w, "/...") {
			list = append(list, path.Clean(w))
		}
	}
	return list
}
