package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// life is the commands of a task from its beginning to its end.
type life struct {
	name    string
	prepare func(w *gitWorld) // before calls of git are counted
	steps   [][]string
	again   []string // what is typed after the task failed
}

func lives() []life {
	start := []string{"start", "02-01-bye"}
	return []life{
		{"run", func(*gitWorld) {}, [][]string{start}, []string{"retry", "02-01-bye"}},
		{"fresh", failedBefore, [][]string{{"retry", "--fresh", "02-01-bye"}, start}, []string{"retry", "--fresh", "02-01-bye"}},
		{"nothing-to-do", nothingToDo, [][]string{start}, []string{"retry", "02-01-bye"}},
		{"planning", untasked, [][]string{{"plan", "-n", "bye", "-t", "backend", "-r", "greet.sh --bye says bye"}}, nil},
	}
}

// updates returns lives in which the base branch moves during the run.
func updates() (list []life) {
	for _, mode := range []string{"rebase", "merge"} {
		list = append(list, life{mode, func(w *gitWorld) {
			w.write(".trellis/config.yaml", gitFaultConfig+"delivery: {update: "+mode+"}\n")
			w.write(".trellis/rehearsal.yaml", strings.Replace(gitFaultRoles, "run: [", "run: [\"test -e $TRELLIS_REPO/more.txt || (unset GIT_REFLOG_ACTION; cd $TRELLIS_REPO; echo more >more.txt; git add more.txt; git commit -qm meanwhile)\", ", 1))
		}, [][]string{{"start", "02-01-bye"}}, []string{"retry", "02-01-bye"}})
	}
	return list
}

// failedBefore leaves committed, staged and untracked work.
func failedBefore(w *gitWorld) {
	w.write(".trellis/rehearsal.yaml", "roles: {implement: [{run: [\"echo mine >mine.txt; git add -A; git commit -qm mine; echo staged >staged.txt; git add staged.txt; echo left >left.txt\"], fail: {code: agent_auth, detail: signed out}}]}\n")
	if code := w.trellis("start", "02-01-bye"); w.task().Status != "failed" {
		w.Fatalf("the first try ended with %d:\n%s", code, w.said)
	}
	w.write(".trellis/rehearsal.yaml", gitFaultRoles)
}

func nothingToDo(w *gitWorld) {
	w.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{answer: done}]\n  check: [{answer: fine}]\n  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: \"greet.sh:1\"}]}}]\n")
	w.write(".trellis/tasks/02-01-bye/prd.md", strings.ReplaceAll(gitFaultPRD, "--bye | grep -q Bye", "| grep -q Hello"))
}

func untasked(w *gitWorld) {
	if err := os.RemoveAll(w.path(".trellis/tasks/02-01-bye")); err != nil {
		w.Fatal(err)
	}
	w.git("add", "-A")
	w.git("commit", "-qm", "no task")
}

// live goes through a life, and repeats commands that failed. It returns how often the task failed.
func (w *gitWorld) live(l life) (failed int) {
	w.Helper()
	for _, step := range l.steps {
		for try := 1; ; try++ {
			before := len(w.said)
			code := w.trellis(step...)
			if code == 0 {
				break
			}
			if said := w.said[before:]; code > 0 && code < 128 && !strings.Contains(said, mood) && !strings.Contains(said, ".lock") {
				w.Errorf("it does not say why:\n%s", said)
			}
			if try == 4 {
				w.Fatalf("trellis %s does not come to its end:\n%s", step, w.said)
			}
			w.write("../calls/mended", "")
			switch t := w.task(); {
			case l.again == nil:
				step = w.plannedAgain(step)
			case t.Status == "failed":
				failed++
				w.fits(t)
				w.trellis(l.again...)
			case t.Status != "in_progress" && t.Status != "ready":
				w.Errorf("it ended with %d and is %s:\n%s", code, t.Status, w.said)
			}
		}
	}
	return failed
}

// plannedAgain returns the command that continues a planning.
func (w *gitWorld) plannedAgain(step []string) []string {
	w.Helper()
	dirs, err := filepath.Glob(w.path(".trellis/tasks/.new-*"))
	if err != nil {
		w.Fatal(err)
	}
	if t := w.task(); t.Dir != "" {
		dirs = append(dirs, w.path(".trellis/tasks/"+t.Dir))
	}
	if len(dirs) == 0 {
		return step
	}
	return []string{"plan", "--retry", dirs[0]}
}

// fits checks that a failure has the code of a failure of git.
func (w *gitWorld) fits(t gitFaultTask) {
	w.Helper()
	if f := t.Pipeline.Failure; !slices.Contains([]string{"worktree_failed", "commit_failed"}, f.Code) {
		w.Errorf("it failed with %s (%s)", f.Code, f.Detail)
	}
}

// reference is the result of a life without a fault.
type reference struct {
	end    string
	calls  []string
	agents map[string]int
}

func (l life) undisturbed(t *testing.T, trellis string) (r reference) {
	t.Helper()
	w := newGitWorld(t, trellis)
	l.prepare(w)
	w.recount()
	if failed := w.live(l); failed > 0 || w.Failed() {
		t.Fatalf("it fails by itself:\n%s", w.said)
	}
	r = reference{w.end(), w.counted(), w.agents()}
	if len(r.calls) < 5 {
		t.Fatalf("git was called %q only", r.calls)
	}
	t.Logf("%s: %d calls of git", l.name, len(r.calls))
	return r
}

// endsAlike goes through a life with one fault, and compares the result.
func (l life) endsAlike(t *testing.T, trellis string, want reference, n int, mode string) {
	w := newGitWorld(t, trellis)
	l.prepare(w)
	w.recount()
	w.write("../calls/fault", fmt.Sprintf("%d %s\n", n, mode))
	failed := w.live(l)
	got := w.end()
	if strings.HasSuffix(mode, "locked") || strings.HasSuffix(mode, "working") { // locks that remain at the end may not be in the way of anything
		own := regexp.MustCompile(`"worktrees/bye(/(index|HEAD)\.lock|-?final\d*/locked)" ?`)
		got = strings.ReplaceAll(own.ReplaceAllString(got, ""), " ]", "]")
	}
	if got != want.end {
		t.Errorf("got\n%s\nwant\n%s\n%s", got, want.end, w.said)
	}
	if once := mode != "broken"; once && failed > 0 {
		t.Errorf("a person is needed for what passes by itself:\n%s", w.said)
	}
	cutOff := 0 // a kill before Trellis has recorded the answer repeats one call: only the stream of a real agent's program would still have it
	if strings.HasPrefix(mode, "killed") {
		cutOff = 1
	}
	for role, calls := range w.agents() {
		most := want.agents[role] + failed // a retry repeats one call
		if l.name == "fresh" {
			most = want.agents[role] * (1 + failed)
		}
		if calls == most+1 {
			cutOff--
		}
		if calls > most+1 || cutOff < 0 {
			t.Errorf("agents were called %v, undisturbed %v\n%s", w.agents(), want.agents, w.said)
		}
	}
	w.keptAll(l)
	if left, err := filepath.Glob(w.path("../tmp/[a-z]*")); err != nil || len(left) > 0 {
		t.Errorf("left of temporary files: %q, %v", left, err)
	}
}

// keptAll checks that work which retry --fresh removed is saved.
func (w *gitWorld) keptAll(l life) {
	w.Helper()
	if l.name != "fresh" {
		return
	}
	all := w.git("log", "-m", "--format=", "--name-only", "--glob=refs/trellis/backup") + "\n" // a later backup has the earlier one as its ancestor
	for _, file := range []string{"mine.txt", "staged.txt", "left.txt"} {
		if !strings.Contains(all, file+"\n") {
			w.Errorf("%s is lost; saved are\n%s", file, all)
		}
	}
}

// changes reports whether a call may change refs, worktrees or files.
func changes(call string) bool {
	verb, _, _ := strings.Cut(call, " ")
	return slices.Contains([]string{"worktree", "commit", "update-ref", "branch", "symbolic-ref", "checkout"}, verb)
}

// Whichever call of git in a task's life fails, and wherever Trellis is killed around a call, the task ends as it would have without that,
// at once or after the next command. A sample of the cases; all of them with TRELLIS_SOAK.
func TestGitFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	const often = "killed-after" // at every ninth call that changes something
	modes := append([]string{often}, "fails", "fails-late", "dies", "dies-working", "locked", "broken", "killed-before", "killed-locked", "killed-working")
	trellis := realTrellis(t)
	all := lives()
	if soak.Asked() {
		all = append(all, updates()...)
	}
	refs, reckon := make([]reference, len(all)), sync.WaitGroup{}
	for i, l := range all {
		reckon.Go(func() { refs[i] = l.undisturbed(t, trellis) })
	}
	reckon.Wait()
	at, tried, changing := 0, 0, 0
	for i, l := range all {
		for m, mode := range modes {
			once := (31*i + 17*m) % len(refs[i].calls) // each mode in a quarter of the lives, at a different call each time
			for n, call := range refs[i].calls {
				at++
				sample := (i+m)%4 == 0 && n == once
				if mode == often && changes(call) {
					changing++
					sample = sample || changing%9 == 0
				}
				if !sample && !soak.Asked() {
					continue
				}
				tried++
				words := strings.Fields(call)
				t.Run(fmt.Sprintf("%s/%s/%d-%s", l.name, mode, n+1, words[0]), func(t *testing.T) {
					t.Parallel()
					l.endsAlike(t, trellis, refs[i], n+1, mode)
				})
			}
		}
	}
	t.Logf("%d of %d cases", tried, at)
}
