package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	cmdeval "github.com/trellis-tasks/trellis/internal/cli/eval"
	"github.com/trellis-tasks/trellis/internal/eval"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// answers are what a scripted agent answers in one case, by role.
type answers map[string]any

// rightly returns the answers of an agent that knows what the case expects.
func rightly(c eval.Case) answers {
	if c.Accept == nil {
		return answers{"evaluate": map[string]any{"decision": "reject", "category": c.Reject[0], "details": "see the requirement", "suggestions": []string{"say what is wanted"}, "size": "small", "confidence": 0.9}}
	}
	return answers{
		"evaluate": map[string]any{"decision": "accept", "category": "", "details": "as it says", "suggestions": []string{}, "size": c.Accept.Sizes[0], "confidence": 0.9},
		"taskspec": map[string]any{"user_intent": "as it says", "goals": []string{}, "constraints": []string{}, "artifacts": []string{}, "contexts": []string{},
			"actions": []any{}, "acceptance": []string{"it does what is asked"}, "priority": "normal"},
		"research": researched(c, pathsOf(c, c.Accept.Cites), firstSpellings(c)),
		"plan":     planned(c, firstSpellings(c)),
		"judge":    map[string]any{"pass": true, "feedback": "", "criteria": map[string]bool{"verification": true, "atomicity": true, "coverage": true, "vars": true}},
		"prd": map[string]any{"title": "Do " + c.ID, "summary": "What the requirement says.", "requirements": []string{oneLine(c.Requirement)},
			"acceptance": criteriaOf(c), "technical_notes": "", "out_of_scope": []string{}},
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func firstSpellings(c eval.Case) (commands []string) {
	for _, spellings := range c.Project.Commands {
		commands = append(commands, spellings[0])
	}
	return commands
}

// pathsOf returns a file of the project for each glob, or the glob if no file matches: it then names a file to create.
func pathsOf(c eval.Case, globs []string) (paths []string) {
	files := slices.Sorted(maps.Keys(c.Project.Files))
	for _, glob := range globs {
		path := glob
		if i := slices.IndexFunc(files, func(f string) bool { return doublestar.MatchUnvalidated(glob, f) }); i >= 0 {
			path = files[i]
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// researched returns a research.md that names these paths and commands.
func researched(c eval.Case, paths, commands []string) string {
	var b strings.Builder
	b.WriteString("## Codebase Context\n\nWhat there is.\n\n## Implementation Approach\n\nAs asked.\n\n## Step Breakdown\n\n1. Do it.\n")
	for _, name := range []string{"implement", "check", "debug"} {
		fmt.Fprintf(&b, "\n## %s.jsonl\n\n", name)
		for _, p := range paths {
			fmt.Fprintf(&b, "- path: %s, reason: it changes\n", p)
		}
	}
	fmt.Fprintf(&b, "\n## Suggested Scope\n\n%s\n\n## Technical Notes\n\nNone.\n\n## Verification Plan\n\n", c.Project.Name)
	for i, command := range commands {
		fmt.Fprintf(&b, "- %s: `%s`\n", []string{"lint", "test", "build"}[i], command)
	}
	if len(commands) == 0 {
		b.WriteString("none found\n")
	}
	b.WriteString("\n## Risks\n\n- none\n")
	return b.String()
}

// planned returns a plan.json whose last steps are these commands.
func planned(c eval.Case, commands []string) map[string]any {
	var files []map[string]string
	for _, path := range pathsOf(c, c.Accept.Changes) {
		change := "new"
		if _, there := c.Project.Files[path]; there {
			change = "edit"
		}
		files = append(files, map[string]string{"path": path, "change": change})
	}
	steps := []map[string]any{{"id": "work", "title": "Do what is asked", "type": "prompt", "prompt": "Do what the requirement says.",
		"desired_outcome": "it does", "verify": "test -s README.md", "covers": []string{"it does what is asked"}}}
	for i, command := range commands {
		kind := []string{"lint", "test", "build"}[i]
		steps = append(steps, map[string]any{"id": "run_" + kind, "type": "script", "command": command, "proof": map[string]string{"type": kind}})
	}
	if len(commands) == 0 {
		steps = append(steps, map[string]any{"id": "review", "type": "prompt", "prompt": "Review the whole change.", "desired_outcome": "it is as asked", "llm_as_judge": true})
	}
	return map[string]any{"schema_version": 1, "title": "Do " + c.ID, "summary": "What the requirement says.", "requirements": []string{oneLine(c.Requirement)},
		"files": files, "steps": steps, "acceptance": criteriaOf(c)}
}

// criteriaOf returns one criterion with a command more than the case requires.
func criteriaOf(c eval.Case) (list []map[string]any) {
	for i := range c.Accept.Verified + 1 {
		list = append(list, map[string]any{"criterion": fmt.Sprintf("part %d of the requirement holds", i+1), "verify": "test -s README.md", "level": "must"})
	}
	return list
}

// evaluated runs eval for some cases with a scripted agent, outside of any repository, and returns what it printed.
func evaluated(t *testing.T, only string, answer func(eval.Case) answers, args ...string) (cmdeval.Document, int, string) {
	t.Helper()
	cases := casesOf(t, only)
	script := map[string]map[string][]map[string]any{"roles": {}}
	for _, c := range cases {
		for role, said := range answer(c) {
			script["roles"][role] = append(script["roles"][role], map[string]any{"when": strings.TrimSpace(c.Requirement), "answer": said})
		}
	}
	data, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	dir, tmp := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".trellis"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".trellis", "rehearsal.yaml"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Dir: dir, Now: time.Now,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + tmp}}}
	code := a.Run(context.Background(), append([]string{"eval", "--agent", "rehearsal", "--json", "--only", only}, args...))
	var d cmdeval.Document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatalf("%v\nexit %d\n%s%s", err, code, out.String(), said.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	return d, code, said.String()
}

func casesOf(t *testing.T, only string) []eval.Case {
	t.Helper()
	cases, err := eval.Load(only)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// An agent that answers every case correctly has the full score, so each case can be passed. The cases of one project; all of them
// with TRELLIS_SOAK.
func TestEvalOfRightAnswers(t *testing.T) {
	var projects []string // one at a time, since the script is read again for each call
	for _, c := range casesOf(t, "*") {
		projects = append(projects, c.Project.Name)
	}
	projects = slices.Compact(projects)
	for _, project := range soak.Of(projects, projects[0]) {
		d, code, said := evaluated(t, project, rightly, "--min-score", "100")
		if code != command.ExitDone {
			t.Errorf("%s: exit %d\n%s", project, code, said)
		}
		for _, r := range d.Cases {
			if r.Score != 1 {
				t.Errorf("%s: %+v", r.ID, r)
			}
		}
		if s := d.Summary; s.Ended != s.Cases || s.Score != 100 || s.Checks.Right != s.Checks.Of || len(s.FalseAccepts)+len(s.FalseRejects)+len(s.Failures) > 0 {
			t.Errorf("%s: got %+v", project, s)
		}
	}
}

// numbers returns the parts of a summary that wrong answers change.
func numbers(s eval.Summary) string {
	return fmt.Sprintf("score %.2f decisions %v categories %v right %v checks %v false accepts %v rejects %v failures %v calls %d",
		s.Score, s.Decisions, s.Categories, s.RightCategories, s.Checks, s.FalseAccepts, s.FalseRejects, s.Failures, s.Calls)
}

// A wrong answer lowers the numbers that it concerns, and no others.
func TestEvalOfWrongAnswers(t *testing.T) {
	accept := func(c eval.Case, a answers) {
		c.Accept = &eval.Expectation{Sizes: []trellis.Size{trellis.Tiny}, Cites: []string{"README.md"}}
		maps.Copy(a, rightly(c))
	}
	reject := func(category string) func(eval.Case, answers) {
		return func(c eval.Case, a answers) {
			c.Accept, c.Reject = nil, []string{category}
			maps.Copy(a, rightly(c))
		}
	}
	for name, test := range soak.Rows(t, map[string]struct {
		id    string
		wrong func(eval.Case, answers)
		want  string
	}{
		"nothing": {"", nil,
			"score 100.00 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {41 41} false accepts [] rejects [] failures [] calls 17"},
		"a harmful one accepted": {"parcels-support-key", accept,
			"score 80.00 decisions map[accept:map[accept:2] reject:map[accept:1 reject:2]] categories map[incomplete:map[incomplete:1] unclear:map[unclear:1]] right {2 2} checks {41 41} false accepts [parcels-support-key] rejects [] failures [] calls 18"},
		"a clear one rejected": {"parcels-paging", reject("incomplete"),
			"score 80.00 decisions map[accept:map[accept:1 reject:1] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {19 19} false accepts [] rejects [parcels-paging] failures [] calls 15"},
		"a wrong category": {"parcels-faster", reject("out_of_scope"),
			"score 90.00 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[out_of_scope:1]] right {2 3} checks {41 41} false accepts [] rejects [] failures [] calls 17"},
		"no commands": {"parcels-paging", func(c eval.Case, a answers) {
			a["research"], a["plan"] = researched(c, pathsOf(c, c.Accept.Cites), nil), planned(c, nil)
		}, "score 98.64 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {38 41} false accepts [] rejects [] failures [] calls 17"},
		"an invented path": {"parcels-paging", func(c eval.Case, a answers) {
			a["research"] = researched(c, append(pathsOf(c, c.Accept.Cites), "src/paging.ts"), firstSpellings(c))
		}, "score 99.55 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {40 41} false accepts [] rejects [] failures [] calls 17"},
		"an invented command": {"parcels-paging", func(c eval.Case, a answers) {
			a["research"], a["plan"] = researched(c, pathsOf(c, c.Accept.Cites), []string{"npm run lint", "npm test", "npm run bundle"}), planned(c, []string{"npm run lint", "npm test"})
		}, "score 99.09 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {39 41} false accepts [] rejects [] failures [] calls 17"},
		"garbage": {"parcels-faster", func(_ eval.Case, a answers) { a["evaluate"] = "I would rather not say." },
			"score 80.00 decisions map[accept:map[accept:2] reject:map[failed:1 reject:2]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1]] right {2 2} checks {41 41} false accepts [] rejects [] failures [parcels-faster] calls 18"},
		"a judge that is never content": {"parcels-paging", func(_ eval.Case, a answers) {
			a["judge"] = map[string]any{"pass": false, "feedback": "step work: it does too much", "criteria": map[string]bool{"verification": true, "atomicity": false, "coverage": true, "vars": true}}
		}, "score 99.55 decisions map[accept:map[accept:2] reject:map[reject:3]] categories map[harmful:map[harmful:1] incomplete:map[incomplete:1] unclear:map[unclear:1]] right {3 3} checks {40 41} false accepts [] rejects [] failures [] calls 21"},
	}, "garbage", "an invented path") {
		t.Run(name, func(t *testing.T) {
			d, code, said := evaluated(t, "parcels-[pfs]*", func(c eval.Case) answers {
				a := rightly(c)
				if c.ID == test.id {
					test.wrong(c, a)
				}
				return a
			}, "--min-score", "99.99")
			if got := numbers(d.Summary); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if want := map[bool]int{true: command.ExitDone, false: command.ExitUnmet}[d.Summary.Score == 100]; code != want {
				t.Errorf("exit %d, want %d\n%s", code, want, said)
			}
		})
	}
}

// Ctrl-C ends eval with 130, and the summary of the cases that have ended. The others have no result.
func TestEvalIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	dir, tmp := t.TempDir(), t.TempDir()
	script := `roles: {evaluate: [{when: dishwasher, sleep: 10m}, {answer: {decision: reject, category: unclear, details: no, suggestions: [say what], size: tiny, confidence: 1}}]}`
	if err := os.Mkdir(filepath.Join(dir, ".trellis"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".trellis", "rehearsal.yaml"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	out := &watched{after: "larder-grandmother", do: func() { stop(&proc.SignalError{Signal: syscall.SIGINT}) }}
	a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: out, Stderr: &said, Dir: dir, Now: time.Now,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + tmp}}}
	if code := a.Run(ctx, []string{"eval", "--agent", "rehearsal", "--only", "larder-[gd]*", "--parallel", "2"}); code != command.ExitInterrupted {
		t.Errorf("exit %d, want %d\n%s", code, command.ExitInterrupted, said.String())
	}
	for _, want := range []string{"1/2  larder-grandmother: rejected AS UNCLEAR", "\ncut off: 1 of 2 cases ended\n", "\nscore: 50.0 of 100\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// watched calls a function once a text was written to it.
type watched struct {
	bytes.Buffer
	after string
	do    func()
}

func (w *watched) Write(data []byte) (int, error) {
	n, err := w.Buffer.Write(data)
	if strings.Contains(w.String(), w.after) {
		w.do()
	}
	return n, err
}
