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

// warnOfSmells warns of what is usually, but not always, a mistake in a step. Files of other tools are exempt from most of it.
func (c *checker) warnOfSmells(s *placedStep) {
	if s.Kind() == Prompt && !c.isChecked(s) {
		c.addStepProblem(s, "", "nothing tells whether it was done").asWarning("give it verify, or llm_as_judge, or a later step with a check that covers the same")
	}
	if c.p.tool != "" {
		return
	}
	if strings.Contains(strings.ToLower(s.Title), " and ") {
		c.addStepProblem(s, "title", "the title names two things").asWarning("make it two steps, if they are")
	}
	if items := longestList(s.Prompt); items > 2 && len(s.loops) == 0 {
		c.addStepProblem(s, "prompt", "the prompt lists %d items", items).asWarning("let for_each go through them, and say {{item}}")
	}
	if strings.Contains(strings.ToLower(s.Prompt), "step") && earlierOutput().MatchString(s.Prompt) {
		c.addStepProblem(s, "prompt", "it is told to use what an earlier step printed, which no agent sees").asWarning("let that step write a file with output, and name the same var in context here")
	}
	for _, t := range s.texts() {
		if found := machinePath(t.value); found != "" {
			c.addStepProblem(s, t.field, "%s is a path of one machine", found).asWarning("use one inside the repository, declared in vars")
		}
	}
}

// earlierOutput matches phrases such as "read the output of the previous step".
var earlierOutput = trellis.Pattern(`(?i)\b(?:outputs?|results?|findings|list)\s+(?:of|from)\s+(?:the\s+)?(?:previous|preceding|prior|earlier|last|above)\s+steps?\b|\b(?:previous|preceding|prior|earlier|last)\s+step(?:'s|’s|s')?\s+(?:outputs?|results?|findings)\b`)

// machineRoots are the beginnings of paths that exist on one machine only.
var machineRoots = []string{"/tmp/", "/home/", "/Users/", "/root/", "/var/", "/mnt/", "/opt/", "~/"}

var onOneMachine = trellis.Pattern("(?:^|[\\s\"'`=:(])(?:" + strings.Join(machineRoots[:len(machineRoots)-1], "|") + ")[\\w.-][^\\s\"'`);,]*|~/[\\w.][^\\s\"'`);,]*")

// machinePath returns the first path in a text that exists on one machine only. Plans are checked often and few texts have such a
// path, so the regular expression is used only for texts with a root.
func machinePath(text string) string {
	if !slices.ContainsFunc(machineRoots, func(root string) bool { return strings.Contains(text, root) }) {
		return ""
	}
	return strings.Trim(onOneMachine().FindString(text), " \t\n\"'`=:(")
}

// listItem matches a list item in a prompt.
var listItem = trellis.Pattern(`^\s*(?:[-*+]|\d+[.)])\s+(.+)$`)

// longestList returns the length of the longest run of list items in a text that are names or paths rather than sentences.
func longestList(text string) int {
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

// isCounting reports whether items are 1, 2, 3 and so on.
func isCounting(items []string) bool {
	for i, item := range items {
		if strings.TrimSpace(item) != strconv.Itoa(i+1) {
			return false
		}
	}
	return len(items) > 1
}

// warnOfNumberedSteps warns of steps that look like one step done several times.
func (c *checker) warnOfNumberedSteps(steps []Step, at string) {
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
		c.warnOfNumberedSteps(s.Steps, fmt.Sprintf("%s/%d/steps", at, i))
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

// warnOfRepeatedPaths warns of paths that several steps name and that the plan does not have in vars or files. Confirmed commands are
// exempt.
func (c *checker) warnOfRepeatedPaths() {
	known := map[string]bool{}
	for _, f := range c.p.Files {
		known[path.Clean(f.Path)] = true
	}
	var confirmed []string
	if c.Confirmed != nil {
		confirmed = *c.Confirmed
	}
	users := map[string][]*placedStep{}
	for i := range c.steps {
		s := &c.steps[i]
		mine := map[string]bool{}
		for _, t := range s.texts() {
			if slices.Contains([]string{"prompt", "command", "verify"}, t.field) && !slices.Contains(confirmed, t.value) {
				for _, p := range repositoryPaths(t.value) {
					mine[p] = true
				}
			}
		}
		for p := range mine {
			users[p] = append(users[p], s)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(users)) {
		if list := users[p]; len(list) > 1 && !known[p] && !c.pathExists(p) {
			at := list[len(list)-1]
			c.addStepProblem(at, "", "%s is also named in step %s", p, list[0].ID).asWarning("declare the path in vars")
		}
	}
}

// pathExists reports whether a path exists in the repository.
func (c *checker) pathExists(p string) bool {
	if c.Exists == nil {
		return false
	}
	ok, err := c.Exists(p)
	return err == nil && ok
}

// repositoryPaths returns the words of a text that look like paths of files in the repository.
func repositoryPaths(text string) (list []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`();,|&<>=:", r) }) {
		w = strings.TrimRight(w, ".")
		if strings.Contains(w, "/") && path.Ext(w) != "" && !strings.ContainsAny(w, "{}*$\\@?") && pathFault(w) == "" && !strings.HasSuffix(w, "/...") {
			list = append(list, path.Clean(w))
		}
	}
	return list
}
