package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// deed is a command that changes something. If it is killed anywhere and typed again, the result is the same.
type deed struct {
	name    string
	prepare func(h *hosted)
	command []string
	settled bool // when everything is done, the same command is refused
	always  string
}

// deeds returns commands that change something: all of them in a soak, otherwise those named.
func deeds(some ...string) []deed {
	const task = ".trellis/tasks/02-01-bye/"
	all := []deed{
		{"deliver", func(h *hosted) { h.started((*hosted).modular) }, []string{"deliver", "02-01-bye"}, false, "push"},
		{"refresh", func(h *hosted) { h.started(none); h.does(0, "deliver", "02-01-bye"); h.merge() }, []string{"status", "--refresh"}, false, "fetch"},
		{"backups", func(h *hosted) { h.host(nil, none); h.leave(true); h.does(0, "cleanup", "02-01-bye", "--force") }, []string{"cleanup", "--backups", "--older", "0d", "--force"}, false, "update-ref"},
		{"archive", func(h *hosted) { h.family("completed") }, []string{"task", "archive", "02-01-bye"}, true, ""},
		{"create", func(h *hosted) { h.family("planning") }, []string{"task", "create", "Third", "--slug", "third", "--parent", "02-00-all"}, true, ""},
		{"link", func(h *hosted) { h.family("planning") }, []string{"task", "add-subtask", "02-00-all", "02-02-other"}, false, ""},
		{"unlink", func(h *hosted) { h.family("planning") }, []string{"task", "remove-subtask", "02-00-all", "02-01-bye"}, true, ""},
		{"remove", func(h *hosted) { h.family("planning") }, []string{"task", "rm", "02-01-bye"}, true, ""},
		{"repair", func(h *hosted) {
			h.family("planning")
			h.write(task+"task.json", "{\n  \"status\": planning,\n  \"parent\": \"02-00-all\"\n}\n")
		}, []string{"doctor", "--repair", "--yes"}, false, ""},
		{"init", func(h *hosted) {
			h.family("in_progress")
			h.write(".trellis/worktree.yaml", "copy: [.env]\nverify: [sh test.sh]\n")
			h.git("rm", "-q", "-f", ".trellis/config.yaml", ".trellis/workflow.md")
			h.git("commit", "-qm", "before")
		}, []string{"init", "-u", "ada"}, false, ""},
	}
	return slices.DeleteFunc(all, func(d deed) bool { return !soak.Asked() && !slices.Contains(some, d.name) })
}

func none(*hosted) {}

// started prepares a task in review that is not delivered yet.
func (h *hosted) started(prepare func(*hosted)) {
	h.Helper()
	h.host(nil, func(h *hosted) {
		prepare(h)
		h.write(".trellis/config.yaml", strings.Replace(h.read(".trellis/config.yaml"), "delivery: {pr: true}\n", "", 1))
	})
	h.does(0, "start", "02-01-bye")
}

// family creates a parent task with a child, and a task without a parent.
func (h *hosted) family(status string) {
	h.Helper()
	h.host(nil, none)
	h.write(".trellis/tasks/02-00-all/task.json", `{"status": "planning", "children": ["02-01-bye"]}`)
	h.write(".trellis/tasks/02-01-bye/task.json", `{"status": "`+status+`", "parent": "02-00-all"}`)
	h.write(".trellis/tasks/02-02-other/task.json", `{"status": "planning"}`)
}

// found describes what a command left: refs, worktrees, the remotes, pull requests, and the files of .trellis.
func (h *hosted) found() string {
	h.Helper()
	var b strings.Builder
	for _, dir := range []string{".", "../origin.git", "../lib.git"} {
		if _, err := os.Stat(h.path(dir)); err == nil {
			fmt.Fprintln(&b, h.git("-C", dir, "for-each-ref", "--format=%(refname) %(tree)"))
		}
	}
	if there := h.remote("feature/bye"); there != "" {
		fmt.Fprintln(&b, "the remote has the branch as it is:", there == h.git("rev-parse", "feature/bye"))
	}
	for _, pr := range h.gh.State(h.T).PRs {
		fmt.Fprintln(&b, "pull request", pr["url"], pr["state"], pr["headRefName"], pr["headRefOid"] == h.remote("feature/bye"))
	}
	fmt.Fprintln(&b, h.git("worktree", "list", "--porcelain"))
	for _, file := range h.files(".trellis") {
		switch {
		case strings.HasPrefix(file, ".runtime/"), strings.Contains(file, "/run/"), strings.HasSuffix(file, ".lock"), strings.HasSuffix(file, "/lock"), strings.Contains(file, ".tmp-"): // doctor --repair removes these
		default:
			fmt.Fprintf(&b, "%s:\n%s\n", file, h.read(".trellis/"+file))
		}
	}
	return timeless(strings.ReplaceAll(b.String(), filepath.Dir(h.Dir), "ROOT"))
}

// timeless returns a text without what differs from run to run or from day to day.
func timeless(text string) string {
	return regexp.MustCompile(`"seconds": [0-9.e-]+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [0-9.]+|\| 0 \| [0-9.]+ \||[0-9a-f]{40}|[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z|\d{4}-\d\d(-\d\d)?\b|"revision": \d+|[0-9.]+ (s|times)\b`).ReplaceAllString(text, "…")
}

// Edge A16: the comparison does not depend on midnight or on the end of a month.
func TestTimeless(t *testing.T) {
	const text = "\"completedAt\": \"2026-11-30\"\n| 2026-11-30 | archived |\narchive/2026-11/02-01-bye/task.json:\n\"at\": \"2026-11-30T23:59:59.9Z\"\n2026-11-30 23:59:59 | 0.3"
	later := strings.NewReplacer("2026-11-30", "2026-12-01", "2026-11", "2026-12", "23:59:59", "00:00:01").Replace(text)
	if a, b := timeless(text), timeless(later); a != b {
		t.Errorf("got %q and %q", a, b)
	}
}

// again repeats the command until it succeeds, and compares the result.
func (d deed) again(h *hosted, want string) {
	h.Helper()
	for try := 1; ; try++ {
		code := h.trellis(d.command...)
		if code == 0 || d.settled && (code == 2 || code == 10 || code == 1) && h.found() == want {
			break
		}
		if try == 4 {
			h.Fatalf("it does not come to its end:\n%s\n%s", h.said, unlike(h.found(), want))
		}
	}
	if got := h.found(); got != want {
		h.Errorf("%s\n%s", unlike(got, want), h.said)
	}
}

// unlike lists the lines that only one of two texts has.
func unlike(got, want string) string {
	has, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	return fmt.Sprintf("more: %q\nless: %q",
		slices.DeleteFunc(slices.Clone(has), func(l string) bool { return slices.Contains(wants, l) }),
		slices.DeleteFunc(slices.Clone(wants), func(l string) bool { return slices.Contains(has, l) }))
}

func (d deed) world(t *testing.T, trellis string) *hosted {
	h := &hosted{gitWorld: newGitWorld(t, trellis), gh: githubtest.Install(t, githubtest.State{})}
	d.prepare(h)
	h.recount()
	return h
}

// Commands that are killed before or after a call of git or gh. A sample of the cases; all of them with TRELLIS_SOAK.
func TestRepeatedAfterAnyCall(t *testing.T) {
	t.Parallel()
	trellis, every, at := realTrellis(t), soak.Every(89), 0
	for _, d := range deeds("deliver", "refresh", "backups", "repair") {
		plain := d.world(t, trellis)
		ghBefore := len(plain.gh.State(t).Calls)
		plain.does(0, d.command...)
		want, calls, ghCalls := plain.found(), plain.counted(), len(plain.gh.State(t).Calls)-ghBefore
		t.Logf("%s: %d calls of git, %d of gh", d.name, len(calls), ghCalls)
		for _, mode := range []string{"killed-before", "killed-after", "killed-working"} {
			for n, call := range calls {
				words := strings.Fields(call)
				if at++; at%every != 0 && !(mode == "killed-after" && words[0] == d.always) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d-%s", d.name, mode, n+1, words[0]), func(t *testing.T) {
					t.Parallel()
					h := d.world(t, trellis)
					h.write("../calls/fault", fmt.Sprintf("%d %s\n", n+1, mode))
					h.trellis(d.command...)
					d.again(h, want)
				})
			}
		}
		for n := range ghCalls * 2 {
			if at++; at%every != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/gh/%d", d.name, n), func(t *testing.T) {
				t.Parallel()
				h := d.world(t, trellis)
				h.gh.Change(t, func(s *githubtest.State) {
					if which := len(s.Calls) + 1 + n/2; n%2 == 0 {
						s.Before = which
					} else {
						s.After = which
					}
				})
				h.trellis(d.command...)
				h.gh.Change(t, func(s *githubtest.State) { s.Before, s.After = 0, 0 })
				d.again(h, want)
			})
		}
	}
	t.Logf("%d cases in all", at)
}

// Commands that are killed before a step on the disk. A sample of the cases; all of them with TRELLIS_SOAK.
func TestRepeatedAfterAnyStep(t *testing.T) {
	t.Parallel()
	trellis, every, at := realTrellis(t), soak.Every(31), 0
	faulty, err := exec.LookPath("trellis-faulty")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deeds("archive", "create", "link", "unlink", "remove", "repair", "init") {
		plain := d.world(t, trellis)
		plain.onBadDisk(faulty, d.command, "")
		want, seen := plain.found(), map[string]int{}
		steps := strings.FieldsFunc(plain.read("../steps"), func(c rune) bool { return c == '\n' })
		t.Logf("%s: %d steps", d.name, len(steps))
		for n, step := range steps {
			seen[step]++
			step = fmt.Sprint(step, " ", seen[step])
			if at++; at%every != 0 || regexp.MustCompile(`[0-9]{6,}`).MatchString(step) { // a name that differs from run to run
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", d.name, n+1), func(t *testing.T) {
				t.Parallel()
				h := d.world(t, trellis)
				h.onBadDisk(faulty, d.command, step)
				d.again(h, want)
			})
		}
	}
	t.Logf("%d cases in all", at)
}

// onBadDisk runs a command that is killed at a step on the disk, or that logs its steps if at is "".
func (h *hosted) onBadDisk(faulty string, command []string, at string) {
	h.Helper()
	root := filepath.Dir(h.Dir)
	cmd := exec.Command(faulty, command...)
	cmd.Dir, cmd.Env = h.Dir, append(slices.Clone(h.Env), "GORACE=atexit_sleep_ms=0", "FAULTS_ROOT="+root, "FAULTS_AT="+at, "FAULTS_DO=worker")
	if at == "" {
		cmd.Env = append(cmd.Env, "FAULTS_LOG="+filepath.Join(root, "steps"))
	}
	out, err := cmd.CombinedOutput()
	h.said += fmt.Sprintf("$ %s, killed at %s\n%s(%v)\n", strings.Join(command, " "), at, out, err)
	if err != nil && at == "" {
		h.Fatal(h.said)
	}
}
