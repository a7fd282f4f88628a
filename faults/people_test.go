package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// peopled plays agents that hold a lock while they work in a worktree: a second agent in the same worktree is recorded.
const peopled = `
roles:
  implement:
    - run: ["echo implement-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log", "exec 9>$TRELLIS_REPO/../locks/$TRELLIS_TASK_ID; flock -n 9 || echo $TRELLIS_TASK_ID >> $TRELLIS_REPO/../doubles; mkdir -p notes; echo $TRELLIS_TASK_ID > notes/$TRELLIS_TASK_ID; sleep 0.2"]
      answer: done
  check:
    - run: ["echo check-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log", "exec 9>$TRELLIS_REPO/../locks/$TRELLIS_TASK_ID; flock -n 9 || echo $TRELLIS_TASK_ID >> $TRELLIS_REPO/../doubles; sleep 0.05"]
      answer: fine
  debug:
    - run: ["echo debug-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log"]
      answer: tried
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`

// People edit task directories, undo that, stash, check out, clean, pull, approve, cancel, archive, retry, and kill the
// watcher, while ten tasks run. None of their saves is lost, no two agents work in one worktree at a time, no task loops,
// and whatever people did, the watcher comes to an end.
func TestPeople(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock(1) is not installed: agents can't show that they are alone")
	}
	t.Parallel()
	end := time.Now().Add(*soakFor)
	for n := *soakOne; n == *soakOne || *soakOne == 0 && time.Now().Before(end); n++ {
		dir, err := os.MkdirTemp("", "trellis-people-")
		if err != nil {
			t.Fatal(err)
		}
		p := &people{world: openWorld(t, dir), rand: rand.New(rand.NewPCG(*soakSeed, uint64(n))), want: map[string][]byte{}, events: map[string]int{}}
		p.live(40 + p.rand.IntN(40))
		if fmt.Printf("people: seed %d, world %d: %v\n", *soakSeed, n, p.tally); t.Failed() {
			t.Fatalf("world %d of seed %d is kept in %s\n%s", n, *soakSeed, dir, strings.Join(p.said, "\n"))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// tally counts what happened in a world.
type tally struct{ things, saves, kills, revisions, calls, commits int }

func (t tally) String() string {
	return fmt.Sprintf("things done %d, saves %d, kills %d, revisions %d, calls of agents %d, tasks delivered %d", t.things, t.saves, t.kills, t.revisions, t.calls, t.commits)
}

// people is a world in which people are at work.
type people struct {
	*world
	tally
	rand    *rand.Rand
	ids     []string
	watcher *process
	want    map[string][]byte // files as people saved them last, nil if there is none; of task.json only the notes
	before  []byte            // the prd.md that the last edit replaced, to undo it
	edited  string            // the id of its task
	events  map[string]int    // by task: what may have raised its revision
	said    []string
}

// live lets people do n things, one after the other, and checks the files after each.
func (p *people) live(n int) {
	p.settleIn()
	acts := []func(string){p.edit, p.edit, p.edit, p.undo, p.undo, p.undo, p.note, p.note, p.note, p.note, p.breakPlan, p.stash, p.branch, p.clean, p.pull,
		p.order("approve"), p.order("approve"), p.order("approve"), p.order("retry"), p.order("retry"), p.order("retry"), p.order("cancel"),
		p.order("task", "archive"), p.order("start"), p.kill, p.kill}
	p.watch()
	for range n {
		id := p.ids[p.rand.IntN(len(p.ids))]
		acts[p.rand.IntN(len(acts))](id)
		p.things++
		p.look()
		time.Sleep(time.Duration(p.rand.IntN(120)) * time.Millisecond) // people do things at any moment
	}
	p.leave()
}

// settleIn makes ten tasks, some of which wait for an approval, and a remote.
func (p *people) settleIn() {
	p.lay(peopled)
	p.fill(map[string]string{"locks/.keep": "", "repo/.trellis/config.yaml": "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {attempts: 20, rounds: 4}\n"})
	for i := range 10 {
		id := fmt.Sprintf("02-01-t%d", i)
		files := map[string]string{"prd.md": "# Note " + id + "\n\n## Acceptance Criteria\n\n- [ ] it is noted\n", "task.json": "{\n  \"status\": \"ready\",\n  \"notes\": \"\"\n}\n"}
		if i%3 == 0 {
			files["task.json"] = "{\n  \"status\": \"ready\",\n  \"notes\": \"\",\n  \"pipeline\": {\"approval\": {\"required\": true}}\n}\n"
		}
		p.task(id, files)
		p.ids = append(p.ids, id)
	}
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "tasks")
	p.git("clone", "-q", "--bare", ".", p.path("origin.git"))
	p.git("remote", "add", "origin", p.path("origin.git"))
	p.git("fetch", "-q", "origin")
	p.git("branch", "-q", "--set-upstream-to=origin/main")
	p.git("clone", "-q", p.path("origin.git"), p.path("colleague"))
	p.intend()
}

func (p *people) file(id, name string) string {
	return p.path("repo/.trellis/tasks/" + id + "/" + name)
}

// saves are the ways in which editors save a file.
var saves = []func(path string, data []byte) error{
	func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) }, // truncate, then write
	func(path string, data []byte) error { // a new file replaces the old one
		return errors.Join(os.WriteFile(path+"~", data, 0o644), os.Rename(path+"~", path))
	},
	func(path string, data []byte) error { // the old file is kept beside the new one until that is written
		return errors.Join(os.Rename(path, path+"~"), os.WriteFile(path, data, 0o644), os.Remove(path+"~"))
	},
}

// save changes a file as a random editor would, if the file exists.
func (p *people) save(id, name string, change func([]byte) []byte) {
	path := p.file(id, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return // the task is archived, or git removed the file
	}
	if data = change(data); data == nil {
		return
	}
	if err := saves[p.rand.IntN(len(saves))](path, data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Error(err)
	}
	p.saves++
	p.events[id]++
	p.want[id+"/"+name] = essence(name, data)
}

// essence returns the part of a file that people wrote: the notes of task.json, whose other fields change by themselves.
func essence(name string, data []byte) []byte {
	if name != "task.json" {
		return data
	}
	var t struct{ Notes string }
	if json.Unmarshal(data, &t) != nil {
		return []byte("no JSON")
	}
	return []byte(t.Notes)
}

func (p *people) edit(id string) {
	p.say("edit %s", id)
	p.save(id, "prd.md", func(data []byte) []byte {
		p.before, p.edited = data, id
		return fmt.Appendf(bytes.Clone(data), "\nMore is said, %d.\n", p.saves)
	})
}

func (p *people) undo(string) {
	if p.edited == "" {
		return
	}
	p.say("undo the edit of %s", p.edited)
	p.save(p.edited, "prd.md", func([]byte) []byte { return p.before })
}

// note changes task.json twice in a row, faster than anybody types.
func (p *people) note(id string) {
	p.say("note in %s", id)
	for range 2 {
		p.save(id, "task.json", func(data []byte) []byte {
			at := bytes.Index(data, []byte(`"notes": "`))
			if at < 0 {
				return nil
			}
			at += len(`"notes": "`)
			end := at + bytes.IndexByte(data[at:], '"')
			return fmt.Appendf(bytes.Clone(data[:at]), "note %d%s", p.saves, data[end:])
		})
	}
}

// breakPlan saves an invalid plan, and removes it after a moment.
func (p *people) breakPlan(id string) {
	p.say("a broken plan in %s", id)
	path := p.file(id, "plan.json")
	if os.WriteFile(path, []byte("{\"steps\": [\n"), 0o644) != nil {
		return
	}
	p.events[id]++
	time.Sleep(time.Duration(p.rand.IntN(100)) * time.Millisecond)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Error(err)
	}
	p.events[id]++
}

// typed runs a git command as people type it, which may well be refused. What it leaves is what people want.
func (p *people) typed(dir string, args ...string) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = p.path(dir), p.Env
	out, err := cmd.CombinedOutput()
	p.say("git %s: %v %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
}

// everywhere counts something that may concern each task, and takes the files on disk for what people want.
func (p *people) everywhere() {
	for _, id := range p.ids {
		p.events[id]++
	}
	p.intend()
}

func (p *people) stash(string) {
	p.typed("repo", "stash", "-q")
	p.everywhere()
	time.Sleep(time.Duration(p.rand.IntN(200)) * time.Millisecond)
	p.typed("repo", "checkout", "-q", "--", ".trellis") // files that were written meanwhile are in the way
	p.typed("repo", "stash", "pop", "-q")
	p.unravel()
	p.everywhere()
}

// unravel ends a stash pop that stopped in conflicts: people take the stashed files.
func (p *people) unravel() {
	if p.git("ls-files", "--unmerged") != "" {
		p.typed("repo", "checkout", "-q", "--theirs", "--", ".trellis")
		p.typed("repo", "reset", "-q")
	}
}

func (p *people) branch(string) {
	p.typed("repo", "checkout", "-q", "-B", "aside", "HEAD")
	p.everywhere()
	time.Sleep(time.Duration(p.rand.IntN(100)) * time.Millisecond)
	p.typed("repo", "checkout", "-q", "main")
	p.everywhere()
}

func (p *people) clean(id string) {
	what := []string{".trellis/.runtime", ".trellis/tasks/" + id, ".trellis"}[p.rand.IntN(3)]
	p.typed("repo", "clean", "-q", "-fdx", "--", what)
	p.everywhere()
}

func (p *people) pull(string) {
	p.fill(map[string]string{fmt.Sprintf("colleague/others-%d", p.things): "x\n"})
	p.typed("colleague", "add", "-A")
	p.typed("colleague", "commit", "-q", "-m", "theirs")
	p.typed("colleague", "push", "-q")
	p.typed("repo", "pull", "-q", "--rebase=false", "--no-edit")
	p.everywhere()
}

// order returns an act that runs a command about a task. The command may be refused, but has to come to an end.
func (p *people) order(words ...string) func(string) {
	return func(id string) {
		args := append(append([]string{}, words...), id)
		e := p.trellis(args)
		p.say("trellis %s: exit %d\n%s", strings.Join(args, " "), e.Code, e.Said)
		p.events[id]++
	}
}

// kill kills the watcher, its guard or both, and starts another watcher.
func (p *people) kill(string) {
	who := victims[p.rand.IntN(len(victims))]
	p.strike(p.watcher, who)
	e := p.wait(p.watcher)
	p.heard(who+" is killed", e)
	p.kills++
	p.everywhere()
	p.watch()
}

// watch starts a watcher. One that was killed may still be dying and hold the lock for a moment, which is not an error.
func (p *people) watch() {
	p.Helper()
	beat := p.path("repo/.trellis/.runtime/watch.json")
	for watches := false; !watches; {
		if err := os.Remove(beat); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Error(err)
		}
		p.watcher = p.begin([]string{"watch", "--parallel", "2"})
		p.until(func() bool {
			_, err := os.Stat(beat)
			watches = err == nil
			return watches || p.watcher.over()
		})
		if watches {
			return
		}
		if e := p.wait(p.watcher); e.Code != 11 {
			p.Fatalf("the watcher does not begin: exit %d\n%s", e.Code, e.Said)
		}
	}
}

// over reports whether a process has ended, even if nobody has waited for it yet.
func (p *process) over() bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	return err != nil || bytes.Contains(status, []byte(") Z "))
}

// heard records what a watcher printed in its life, and fails if that is so much that the watcher must have looped.
func (p *people) heard(how string, e ended) {
	p.Helper()
	p.say("the watcher: %s: exit %d\n%s", how, e.Code, e.Said)
	if lines := strings.Count(e.Said, "\n"); lines > 300*(p.things+1) {
		p.Errorf("CIRCLES: the watcher said %d lines in the time of %d events", lines, p.things)
	}
}

// intend takes the files on disk after a git command for what people want.
func (p *people) intend() {
	for _, id := range p.ids {
		for _, name := range []string{"prd.md", "task.json"} {
			data, err := os.ReadFile(p.file(id, name))
			if p.want[id+"/"+name] = essence(name, data); err != nil {
				p.want[id+"/"+name] = nil
			}
		}
	}
}

// look checks that all is as people saved it, except for directories that went with a branch, a stash or to the archive.
func (p *people) look() {
	p.Helper()
	for file, want := range p.want {
		id, name, _ := strings.Cut(file, "/")
		data, err := os.ReadFile(p.file(id, name))
		if err != nil || want == nil {
			continue
		}
		if got := essence(name, data); !bytes.Equal(got, want) {
			p.Errorf("LOST: %s is %q, people saved %q", file, got, want)
			p.want[file] = got
		}
	}
}

// leave ends the watcher, lets every task that can finish do so, and counts.
func (p *people) leave() {
	if err := p.watcher.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Error(err)
	}
	e := p.wait(p.watcher)
	p.heard("ends", e)
	for _, then := range []string{"", "approve", "retry", "approve"} { // what people still have to do
		for _, id := range p.ids {
			if then != "" {
				p.order(then)(id)
			}
		}
		e = p.again([]string{"watch", "--once", "--parallel", "2"})
		p.say("at last: exit %d\n%s", e.Code, e.Said)
	}
	p.look()
	p.gone()
	p.tally.calls = strings.Count(p.read("calls.log"), "\n")
	if doubles := p.read("doubles"); doubles != "" {
		p.Errorf("TWO at work in the worktree of %s", doubles)
	}
	for _, id := range p.ids {
		p.bounded(id)
		if made := p.git("log", "--branches", "--format=%H", "--grep=^Trellis-Task: "+id+"$", "--", "notes"); made != "" {
			p.commits++
		}
	}
}

// bounded checks that the events of a task account for its revision: a whole run raises it by about twenty.
func (p *people) bounded(id string) {
	data, err := os.ReadFile(p.file(id, "task.json"))
	if err != nil {
		return // archived
	}
	var t struct {
		Pipeline struct{ Revision int }
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return // as git or people left it
	}
	p.revisions += t.Pipeline.Revision
	if most := 30 * (p.events[id] + 2); t.Pipeline.Revision > most {
		p.Errorf("CIRCLES: revision %d of %s after %d events", t.Pipeline.Revision, id, p.events[id])
	}
}

func (p *people) say(format string, args ...any) {
	p.said = append(p.said, fmt.Sprintf(format, args...))
}
