package tui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// fake is a world that records what it is asked for.
type fake struct {
	tasks map[string]status.Task
	pages map[Tab][]line
	feed  chan events.Event
	fails error
	asked []string // what was read, ordered and run

	deaf      error  // error of Events
	blind     bool   // plans can't be shown
	step      string // the step that waits
	some      int    // how many tasks are read at a time; 0: all
	meanwhile func() // is called after each part of the tasks is read
}

func (f *fake) note(words ...string) { f.asked = append(f.asked, strings.Join(words, " ")) }

func (f *fake) Tasks() (*Reading, error) {
	f.note("tasks")
	ids := slices.Sorted(maps.Keys(f.tasks))
	r := &Reading{Of: len(ids), Watcher: "no watcher"}
	r.Next = func(func()) (some []status.Task, more bool) {
		n := len(ids)
		if f.some > 0 {
			n = min(f.some, n)
		}
		for _, id := range ids[:n] {
			some = append(some, f.tasks[id])
		}
		ids = ids[n:]
		if f.meanwhile != nil {
			f.meanwhile()
		}
		return some, len(ids) > 0
	}
	return r, nil
}

func (f *fake) Task(id string) (status.Task, error) {
	f.note("task", id)
	t, ok := f.tasks[id]
	if !ok {
		return t, taskdir.ErrNotFound
	}
	return t, nil
}

func (f *fake) Events(context.Context) (<-chan events.Event, error) { return f.feed, f.deaf }

func (f *fake) Page(_ context.Context, id string, tab Tab) ([]line, Subject, error) {
	f.note("page", id, string(tab))
	var about Subject
	if tab == Plan && !f.blind {
		about = Subject{Step: f.step, Hash: fmt.Sprintf("hash-of-%s-%d", id, len(f.pages[tab]))}
	}
	return append(lines(string(tab)+" of "+id, bold), f.pages[tab]...), about, nil
}

func (f *fake) Give(_ context.Context, o Order, id string, about Subject, reason string) (Answer, error) {
	f.note(strings.Join(strings.Fields(strings.Join([]string{"give", string(o), id, about.Step, about.Hash, reason}, " ")), " "))
	return Answer{id + " is told to " + string(o), "trellis status " + id}, f.fails
}

func (f *fake) Program(kind Program, id string) (*exec.Cmd, error) {
	f.note(strings.TrimSpace("program " + string(kind) + " " + id))
	return nil, errors.New("not in a test")
}

// gave returns the orders that were given and the programs that were run.
func (f *fake) gave() (list []string) {
	for _, a := range f.asked {
		if strings.HasPrefix(a, "give ") || strings.HasPrefix(a, "program ") {
			list = append(list, a)
		}
	}
	return list
}

// driven is a screen whose commands are executed at once, and whose clock does not advance.
type driven struct {
	*Model
	t     *testing.T
	world *fake
	ended bool
}

func drive(t *testing.T, tasks ...status.Task) *driven {
	t.Helper()
	f := &fake{tasks: map[string]status.Task{}, pages: map[Tab][]line{}}
	for _, one := range tasks {
		f.tasks[one.ID] = one
	}
	d := &driven{Model: New(t.Context(), f, "shop", true, func() time.Time { return noon }), t: t, world: f}
	d.nextTick = func() tea.Cmd { return nil }
	d.tell(tea.WindowSizeMsg{Width: 80, Height: 24})
	d.do(d.Init())
	return d
}

func (d *driven) tell(msg tea.Msg) {
	_, cmd := d.Update(msg)
	d.do(cmd)
}

func (d *driven) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, one := range msg {
			d.do(one)
		}
	case tea.QuitMsg:
		d.ended = true
	case nil, tea.SuspendMsg:
	default:
		d.tell(msg)
	}
}

// press presses keys: single characters, or names between < and >.
func (d *driven) press(keys string) {
	d.t.Helper()
	for keys != "" {
		name := keys[:1]
		if keys[0] == '<' {
			name = keys[1:strings.IndexByte(keys, '>')]
			keys = keys[len(name)+1:]
		}
		keys = keys[1:]
		d.tell(press(name))
	}
}

var named = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
	"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "home": {Code: tea.KeyHome},
	"end": {Code: tea.KeyEnd}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "backspace": {Code: tea.KeyBackspace},
	"space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+d": {Code: 'd', Mod: tea.ModCtrl},
	"ctrl+u": {Code: 'u', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl},
}

func press(name string) tea.KeyPressMsg {
	if k, ok := named[name]; ok {
		return k
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// text returns the screen without colours, and checks that it has the right size.
func (d *driven) text() string {
	d.t.Helper()
	all := screen{d.Model}.lines()
	if len(all) != d.height {
		d.t.Fatalf("the screen has %d lines, want %d:\n%s", len(all), d.height, strings.Join(all, "\n"))
	}
	for i, l := range all {
		all[i] = ansi.Strip(l)
		if n := ansi.StringWidthWc(all[i]); n != d.width {
			d.t.Fatalf("line %d has %d columns, want %d: %q", i, n, d.width, all[i])
		}
	}
	return strings.Join(all, "\n")
}

func (d *driven) want(words ...string) {
	d.t.Helper()
	got := d.text()
	for _, w := range words {
		if !strings.Contains(got, w) {
			d.t.Errorf("want %q in\n%s", w, got)
		}
	}
}

func task(id string, s trellis.Status) status.Task {
	return status.Task{ID: id, Status: s, Title: "Do " + id, Priority: "P2"}
}

func three(t *testing.T) *driven {
	return drive(t, task("02-01-auth", trellis.Waiting), task("02-02-paging", trellis.Review), task("02-03-cart", trellis.Ready))
}

func TestKeysMove(t *testing.T) {
	for keys, want := range map[string]string{
		"": "02-01-auth", "j": "02-02-paging", "jj": "02-03-cart", "jjj": "02-03-cart", "jk": "02-01-auth", "<down>": "02-02-paging", "<down><up>": "02-01-auth",
		"G": "02-03-cart", "Gg": "02-01-auth", "<end>": "02-03-cart", "<end><home>": "02-01-auth", "<pgdown>": "02-03-cart", "<pgdown><pgup>": "02-01-auth",
		"<space>": "02-03-cart", "<ctrl+d>": "02-03-cart", "G<ctrl+u>": "02-01-auth", "/paging<enter>": "02-02-paging", "/CART<enter>": "02-03-cart", "/no such": "",
		"/no such<esc>": "02-01-auth", "/cart<enter><esc>": "02-03-cart", "/cartx<backspace><enter>": "02-03-cart", "ff": "02-02-paging", "ffff": "02-03-cart", "ff<esc>": "02-02-paging",
	} {
		d := three(t)
		d.press(keys)
		if d.list.selected != want {
			t.Errorf("%q selects %q, want %q\n%s", keys, d.list.selected, want, d.text())
		}
		if d.page.id != want {
			t.Errorf("%q shows the page of %q, want %q", keys, d.page.id, want)
		}
	}
}

func TestKeysTurnPages(t *testing.T) {
	for keys, want := range map[string]Tab{"": Now, "<tab>": Plan, "l": Plan, "<right><right>": Diff, "h": Proofs, "<left>": Proofs, "<shift+tab>": Proofs, "<tab><tab><tab><tab><tab><tab>": Now} {
		d := three(t)
		d.press(keys)
		d.want("["+string(want)+"]", string(want)+" of 02-01-auth")
	}
}

// A key gives its order for the selected task, and an order that takes something away only after y. Approve needs the plan shown first.
func TestKeysOrder(t *testing.T) {
	for keys, want := range map[string]string{
		"js": "give start 02-02-paging", "a": "", "aa": "give approve 02-01-auth hash-of-02-01-auth-0", "<tab>a": "give approve 02-01-auth hash-of-02-01-auth-0", "ajja": "give approve 02-03-cart hash-of-02-03-cart-0", "R": "give retry 02-01-auth",
		"Sy": "", "jaa": "", "jxx": "", "c": "", "cY": "", "cy": "give cancel 02-01-auth", "d": "", "dx": "", "dy": "give deliver 02-01-auth",
		"x": "", "xx<esc>": "", "xx<enter>y": "", "xxtoo late<enter>": "", "xxtoo late<enter>n": "", "xxtoo late<enter>y": "give reject 02-01-auth hash-of-02-01-auth-0 too late",
		"n": "program plan", "r": "program review 02-01-auth", "e": "program edit 02-01-auth", "o": "program shell 02-01-auth", "O": "program editor 02-01-auth",
		"?cy": "", "/cy<enter>": "", "cjy": "",
	} {
		d := three(t)
		d.press(keys)
		if got := strings.Join(d.world.gave(), ", "); got != want {
			t.Errorf("%q: got %q, want %q\n%s", keys, got, want, d.text())
		}
	}
}

// Only what runs can be stopped, after y, and only what needs approval can be decided. Otherwise the screen says why not.
func TestKeysThatDoNothing(t *testing.T) {
	at := task("02-01-auth", trellis.InProgress)
	for keys, want := range map[string]string{"S": "", "S<esc>": "", "S<enter>": "", "Sn": "", "Sy": "give stop 02-01-auth"} {
		d := drive(t, at)
		d.press(keys)
		if got := strings.Join(d.world.gave(), ", "); got != want {
			t.Errorf("%q: got %q, want %q\n%s", keys, got, want, d.text())
		}
	}
	d := three(t)
	d.press("jS")
	d.want("02-02-paging is in review: nothing runs that could be stopped")
	d.press("a")
	d.want("[now]", "02-02-paging is in review: nothing needs approval")
	d.press("x")
	d.want("[now]", "02-02-paging is in review: nothing needs approval")
	d = drive(t, task("02-01-auth", trellis.Rejected))
	d.press("s")
	d.want("02-01-auth is rejected: [report] says why, and how to plan it again")
	if got := d.world.gave(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// A program that failed is reported with what its exit code means. A program that a person ended is not, and neither is a shell whose
// last command failed.
func TestProgramThatEnded(t *testing.T) {
	for of, want := range map[struct {
		kind Program
		does string
	}]string{
		{NewPlan, "exit 0"}: "<nil>", {NewPlan, "exit 8"}: "<nil>", {Review, "exit 130"}: "<nil>", {Shell, "exit 1"}: "<nil>",
		{NewPlan, "exit 2"}: "plan: nothing was done; q shows what it said", {NewPlan, "exit 4"}: "plan: the requirement was rejected; q shows what it said",
		{NewPlan, "exit 5"}: "plan: the planner failed; q shows what it said", {Edit, "exit 3"}: "edit: it exited with 3; q shows what it said",
		{Editor, "exit 127"}: "editor ended: exit status 127", {NewPlan, "kill -9 $$"}: "plan ended: signal: killed",
	} {
		if got := fmt.Sprint(programError(of.kind, exec.Command("sh", "-c", of.does).Run())); got != want {
			t.Errorf("%s, %s: got %q, want %q", of.kind, of.does, got, want)
		}
	}
}

// A planning that is not at work shows why, and looks different from one that is.
func TestPlanningThatStopped(t *testing.T) {
	stopped := task("02-02-out", trellis.Planning)
	stopped.Failure.Code = trellis.AgentProtocol
	held := task(".new-02-03-on", trellis.Planning)
	held.HeldBy, held.Phase = &status.Holder{PID: 1}, "judge"
	cut := task(".new-02-01-off", trellis.Planning)
	cut.CutOff = true
	d := drive(t, cut, stopped, held)
	d.tell(tea.WindowSizeMsg{Width: 140, Height: 24})
	d.want("02-01-off", "cut off", "agent_protocol", "judge")
}

// On a wide terminal a task's whole name is shown before its title. On a narrow one the help for keys is wrapped, not cut.
func TestWidths(t *testing.T) {
	long := "02-01-" + strings.Repeat("long-", 8) + "name"
	d := drive(t, task(long, trellis.Ready), task("02-02-paging", trellis.Ready))
	d.tell(tea.WindowSizeMsg{Width: 200, Height: 24})
	d.want("> "+long+"  ", "Do 02-01-long")
	d.tell(tea.WindowSizeMsg{Width: 40, Height: 60})
	d.want("> 02-01-long-long-lon…ong-long-long-name", "02-02-paging")
	d.press("?")
	for row := range strings.Lines(d.text()) {
		if strings.Contains(row, "…") {
			t.Errorf("it is cut: %s", row)
		}
	}
	d.want("j ↓      next task, or one line down ", "           in a page ", "can be selected")
}

// A run that was requested and has not begun is not shown as cut off.
func TestUnstarted(t *testing.T) {
	asked, cut, given := task("02-01-asked", trellis.InProgress), task("02-02-cut", trellis.InProgress), task("02-03-given", trellis.Ready)
	asked.WaitingFor, cut.WaitingFor, given.WaitingFor = status.ForWatcher, status.ForWatcher, status.ForMachine
	cut.CutOff = true
	for _, c := range []struct {
		of   status.Task
		want string
	}{{asked, "not started"}, {cut, "cut off"}, {given, "given to the team"}} {
		if got := remarkOf(&c.of, noon); got != c.want {
			t.Errorf("%s: got %q, want %q", c.of.ID, got, c.want)
		}
	}
}

func TestAnswersStay(t *testing.T) {
	d := three(t)
	d.press("aa")
	d.want("02-01-auth is told to approve · next: trellis status 02-01-auth")
	d.world.fails = app.WithHints(errors.New("the plan has changed"), "trellis review 02-01-auth")
	d.press("a")
	d.want("the plan has changed · next: trellis review 02-01-auth")
	d.press("c")
	d.want("cancel 02-01-auth? Its worktree and branch stay; undo: R, or trellis undo (y/n)")
	d.press("n")
	d.want("nothing was done")
	d.press("x")
	d.press("the API goes")
	d.want("reject 02-01-auth, since: the API goes")
	d.press("<enter>")
	d.want("Undo: trellis plan --retry 02-01-auth (y/n)")
}

// An approval applies to the plan that is shown: if the plan changes between two keys, the changed plan is shown first.
func TestApproveWhatIsShown(t *testing.T) {
	d := three(t)
	d.press("a")
	d.want("[plan]", "this is the plan of 02-01-auth: a approves it")
	d.world.pages[Plan] = lines("and much more", plain)
	d.tell(programEnded{})
	d.want("and much more", "it was changed since it was shown; this is what it is now")
	d.press("a")
	d.want("a approves what is shown now")
	if got := d.world.gave(); len(got) > 0 {
		t.Fatalf("what was not seen is approved: %q", got)
	}
	d.press("a")
	if got := strings.Join(d.world.gave(), ", "); got != "give approve 02-01-auth hash-of-02-01-auth-1" {
		t.Errorf("got %q", got)
	}
}

// A key decides about a plan only once the plan can be read, and is not offered before.
func TestOfferOnceItIsRead(t *testing.T) {
	d := three(t)
	key := tea.KeyPressMsg{Code: 'x', Text: "x"}
	_, read := d.Update(key)
	d.want("[plan]", "reading …")
	if strings.Contains(d.text(), "x rejects it") {
		t.Error("it is offered before it can be read")
	}
	d.tell(key)
	d.want("the plan of 02-01-auth is being read: nothing was done")
	d.do(read)
	d.want("this is the plan of 02-01-auth: x rejects it")
}

// A rejection applies to the plan that was shown when it was begun, even if the plan changes while the reason is typed. It applies to
// the step that waits, if there is one. What can't be shown can't be decided.
func TestRejectWhatIsShown(t *testing.T) {
	d := three(t)
	d.press("x")
	d.want("[plan]", "this is the plan of 02-01-auth: x rejects it")
	d.press("xno")
	d.world.pages[Plan] = lines("and much more", plain)
	d.tell(programEnded{})
	d.press("<enter>y")
	if got := strings.Join(d.world.gave(), ", "); got != "give reject 02-01-auth hash-of-02-01-auth-0 no" {
		t.Errorf("got %q", got)
	}
	d = three(t)
	d.world.step = "publish"
	d.press("aaxno<enter>")
	d.want("reject publish of 02-01-auth? The step fails (y/n)")
	d.press("y")
	if got := strings.Join(d.world.gave(), ", "); got != "give approve 02-01-auth publish hash-of-02-01-auth-0, give reject 02-01-auth publish hash-of-02-01-auth-0 no" {
		t.Errorf("got %q", got)
	}
	d = three(t)
	d.world.blind = true
	d.press("aaxx")
	d.want("what there is to approve can't be shown")
	if got := d.world.gave(); len(got) > 0 {
		t.Errorf("what is not seen is decided: %q", got)
	}
}

// When the events end, the screen says so.
func TestEventsEnd(t *testing.T) {
	d := three(t)
	d.tell(eventBatch(nil))
	d.want("events are unavailable: what is shown may be old")
}

// The return of a program that had the terminal does not end an order that is being carried out.
func TestReturnedLeavesTheOrder(t *testing.T) {
	d := three(t)
	d.runningOrder = "deliver 02-01-auth"
	d.tell(programEnded{errors.New("signal: killed")})
	d.want("signal: killed")
	if d.runningOrder == "" {
		t.Error("the order is forgotten")
	}
}

// Paging through a page shows every line, and long lines to their end.
func TestEveryRowIsRead(t *testing.T) {
	d := three(t)
	for i := range 30 {
		d.world.pages[Plan] = append(d.world.pages[Plan], lines(fmt.Sprintf("mark%02d. %s", i, strings.Repeat("words and ", 20)), plain)...)
	}
	d.world.pages[Plan] = append(d.world.pages[Plan], lines("begin "+strings.Repeat("long ", 400)+"finis", plain)...)
	d.press("<tab><enter>")
	seen := d.text()
	for range 60 {
		d.press("<space>")
		seen += d.text()
	}
	for i := range 30 {
		if !strings.Contains(seen, fmt.Sprintf("mark%02d.", i)) {
			t.Errorf("line %d is never shown", i)
		}
	}
	if !strings.Contains(d.text(), "finis") {
		t.Errorf("at the end:\n%s", d.text())
	}
}

func TestKeysEnd(t *testing.T) {
	for keys, want := range map[string]bool{"q": true, "<ctrl+c>": true, "?q": false, "?<ctrl+c>": true, "/q": false, "cq": false, "xxq": false} {
		d := three(t)
		d.press(keys)
		if d.ended != want {
			t.Errorf("%q ends: %t, want %t", keys, d.ended, want)
		}
	}
	d := three(t)
	d.runningOrder = "deliver 02-01-auth"
	d.press("q")
	d.want("still at it: deliver 02-01-auth. End all the same?")
	if d.press("n"); d.ended {
		t.Error("it ends after a no")
	}
	if d.press("qy"); !d.ended {
		t.Error("it does not end after a yes")
	}
	d.ended = false
	d.press("aaR")
	if got := d.world.gave(); len(got) > 0 {
		t.Errorf("while it is busy: got %q", got)
	}
}

// The help shows every key, no key is bound twice, and on a low terminal the help can be scrolled to its end.
func TestSheet(t *testing.T) {
	d := three(t)
	d.tell(tea.WindowSizeMsg{Width: 60, Height: 60})
	d.press("?")
	got := d.text()
	seen := map[string]bool{}
	for _, s := range sheet() {
		for _, k := range s.keys {
			if !strings.Contains(got, k.name) || !strings.Contains(got, k.help) {
				t.Errorf("it lacks %q: %s", k.name, k.help)
			}
			for _, name := range k.bindings {
				if seen[name] {
					t.Errorf("%q stands twice", name)
				}
				seen[name] = true
			}
		}
	}
	d.press("<esc>")
	d.want("WAITING 1 task")
	d.tell(tea.WindowSizeMsg{Width: 60, Height: 12})
	d.press("?")
	for range 60 {
		d.press("j")
	}
	d.want("The mouse belongs to the terminal")
}

// While a page is read, the keys that move in the list move in the page.
func TestReading(t *testing.T) {
	d := three(t)
	for i := range 100 {
		d.world.pages[Plan] = append(d.world.pages[Plan], line{fmt.Sprintf("line %d", i), plain})
	}
	d.press("<tab><enter>")
	d.want("line 0", "esc back")
	d.press("jj")
	if got := d.text(); strings.Contains(got, "line 0 ") || d.list.selected != "02-01-auth" {
		t.Errorf("after two lines\n%s", got)
	}
	d.press("G")
	d.want("line 99")
	d.press("g")
	d.want("plan of 02-01-auth")
	d.press("<esc>j")
	if d.list.selected != "02-02-paging" {
		t.Errorf("after esc and j: %s", d.list.selected)
	}
}

func TestFilesOfADiff(t *testing.T) {
	d := three(t)
	body := colourPatch(lines("diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-old\n+new\n"+strings.Repeat(" same\n", 50)+"diff --git a/b.go b/b.go\n+++ b/b.go\n+more\n"+strings.Repeat(" same\n", 50), plain))
	d.world.pages[Diff] = append(patchFiles(body), body...)
	d.press("<tab><tab>")
	d.want("a.go  +1 -1", "b.go  +1 -0")
	d.press("]]")
	d.want("+more")
	if strings.Contains(d.text(), "+new") {
		t.Errorf("]] is not at the second file\n%s", d.text())
	}
	d.press("[")
	d.want("+new")
	shown := strings.Join(screen{d.Model}.lines(), "\n")
	if !strings.Contains(shown, "\x1b[32m+new") || !strings.Contains(shown, "\x1b[31m-old") {
		t.Errorf("it is not coloured:\n%q", shown)
	}
}

// An event has only the task or the page read again that it concerns.
func TestEventsReadWhatChanged(t *testing.T) {
	d := three(t)
	d.world.asked = nil
	d.world.tasks["02-03-cart"] = status.Task{ID: "02-03-cart", Status: trellis.InProgress, Phase: "check", HeldBy: &status.Holder{PID: 1}, Since: noon.Add(-time.Minute).Format(time.RFC3339)}
	d.tell(eventBatch{{Task: "02-03-cart", Kind: events.PhaseBegun}, {Task: "02-03-cart", Kind: events.Tool}})
	if got := strings.Join(d.world.asked, ", "); got != "task 02-03-cart" {
		t.Errorf("got %q", got)
	}
	d.want("IN PROGRESS 1 task", "02-03-cart  check 1m0s")
	d.world.asked = nil
	d.tell(eventBatch{{Task: "02-01-auth", Kind: events.Text}})
	if got := strings.Join(d.world.asked, ", "); got != "page 02-01-auth now" {
		t.Errorf("of what the agent of the selected task says: got %q", got)
	}
	d.world.asked = nil
	d.tell(eventBatch{{Task: "02-02-paging", Kind: events.Text}})
	if len(d.world.asked) > 0 {
		t.Errorf("of what another's agent says: got %q", d.world.asked)
	}
}

// A removed task leaves the list, and the next one is selected. With an empty list no key gives an order.
func TestTaskVanishes(t *testing.T) {
	d := three(t)
	d.press("j")
	delete(d.world.tasks, "02-02-paging")
	d.tell(eventBatch{{Task: "02-02-paging", Kind: events.Changed}})
	if got := d.text(); strings.Contains(got, "paging") || d.list.selected != "02-03-cart" {
		t.Errorf("selected %q\n%s", d.list.selected, got)
	}
	for _, id := range []string{"02-01-auth", "02-03-cart"} {
		delete(d.world.tasks, id)
		d.tell(eventBatch{{Task: id, Kind: events.Changed}})
	}
	d.want("no tasks yet: n plans one")
	d.press("jkgGsaSRd<enter><tab>c")
	if got := d.world.gave(); len(got) > 0 {
		t.Errorf("without a task: got %q", got)
	}
	d.want("no task is selected")
}

// A planning stays selected when its task gets its final name.
func TestPlanningGetsItsName(t *testing.T) {
	d := drive(t, task(".new-02-09-new", trellis.Planning), task("02-01-auth", trellis.Completed))
	d.want("> 02-09-new")
	d.world.tasks["02-09-new"] = task("02-09-new", trellis.Ready)
	d.tell(eventBatch{{Task: "02-09-new", Kind: events.Changed}})
	if got := d.text(); d.list.selected != "02-09-new" || strings.Count(got, "02-09-new") < 1 || strings.Contains(got, "PLANNING") {
		t.Errorf("selected %q\n%s", d.list.selected, got)
	}
}

func TestBrokenTaskIsShown(t *testing.T) {
	d := drive(t, status.Task{ID: "02-04-bad", Problems: []trellis.Problem{{File: ".trellis/tasks/02-04-bad/task.json", Line: 3, Message: "no comma"}}})
	d.tell(tea.WindowSizeMsg{Width: 120, Height: 24})
	d.want("BROKEN 1 task", "02-04-bad  task.json:3: no comma")
}

// Hostile text does not break the screen in any size, and no control character of it is written to the terminal.
func TestHostileTextInAnySize(t *testing.T) {
	evil := "\x1b[2J\x1b]0;x\a\u202e\r\n\t日本語タスク👩‍👩‍👧🇯🇵⚠️é\x00\x7f"
	d := drive(t, status.Task{ID: "02-01-日本語の長い名前をもつタスク" + evil, Title: evil, Status: trellis.Waiting, WaitingFor: evil}, status.Task{ID: "02-02-x", Title: strings.Repeat("語", 300), Status: "odd"},
		task("02-03-ok", trellis.Ready))
	for _, tab := range Tabs {
		d.world.pages[tab] = append(lines(evil+strings.Repeat(evil, 50), red), lines(strings.Repeat("語", 5000), plain)...)
	}
	d.tell(Notice(evil))
	for width := 0; width < 170; width += 7 {
		for _, height := range []int{0, 1, 4, 5, 12, 24, 50} {
			d.Update(tea.WindowSizeMsg{Width: width, Height: height})
			d.press("<tab>j")
			for _, keys := range []string{"", "<enter>G", "<esc>?", "<esc>/日", "<esc>c", "n"} {
				d.press(keys)
				if width >= 20 && height >= 5 {
					d.text()
				}
				for _, l := range (screen{d.Model}).lines() {
					if strings.ContainsAny(painted.ReplaceAllString(l, ""), "\x1b\a\r\x00\x7f\u202e") {
						t.Fatalf("%d×%d: %q", width, height, l)
					}
				}
			}
		}
	}
}

// painted matches the escape sequences that set colours.
var painted = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// Only the sixteen colours are used, and without colours only bold and reverse.
func TestColours(t *testing.T) {
	for _, colour := range []bool{true, false} {
		d := three(t)
		d.paint.colour = colour
		d.press("j")
		var got []string
		for _, m := range painted.FindAllStringSubmatch(strings.Join(screen{d.Model}.lines(), "\n"), -1) {
			if !slices.Contains(got, m[1]) {
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		if want := map[bool]string{true: "0 1 33 7", false: "0 1 7"}[colour]; strings.Join(got, " ") != want {
			t.Errorf("colour %t: got %q, want %q", colour, got, want)
		}
	}
}

// With ten thousand tasks, moving and searching work, and drawing costs no more than the visible rows need.
func TestManyTasks(t *testing.T) {
	var all []status.Task
	for i := range 10_000 {
		all = append(all, task(fmt.Sprintf("02-01-other-%05d", i), trellis.Statuses[i%len(trellis.Statuses)]))
	}
	d := drive(t, all...)
	d.want("10000 tasks", "WAITING 1000 tasks")
	d.press("G")
	d.want("> 02-01-other-09999")
	before := testing.AllocsPerRun(3, func() { screen{d.Model}.lines() })
	if before > 2000 {
		t.Errorf("drawing makes %.0f allocations", before)
	}
	d.press("/09998<enter>")
	d.want("> 02-01-other-09998")
}

// The clock runs only while a process works on a task.
func TestClock(t *testing.T) {
	d := three(t)
	if d.ticking {
		t.Error("a clock runs while nobody works")
	}
	at := task("02-03-cart", trellis.InProgress)
	at.HeldBy = &status.Holder{PID: 1}
	d.Update(taskRead{id: at.ID, task: at})
	if !d.ticking {
		t.Error("no clock runs while somebody works")
	}
	d.Update(tick{})
	if !d.ticking {
		t.Error("the clock stops while somebody works")
	}
	at.HeldBy = nil
	d.Update(taskRead{id: at.ID, task: at})
	d.Update(tick{})
	if d.ticking {
		t.Error("the clock goes on when nobody works any more")
	}
}

// Random keys do not break the screen, and an order that takes something away is only given by y.
func TestRandomKeys(t *testing.T) {
	names := slices.Sorted(maps.Keys(named))
	for c := ' '; c <= '~'; c++ {
		names = append(names, string(c))
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == " " || n == "ctrl+z" || n == "q" || n == "ctrl+c" })
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := three(t)
		for range 400 {
			name, before := names[r.IntN(len(names))], len(d.world.gave())
			d.tell(press(name))
			if given := d.world.gave()[before:]; len(given) > 0 && name != "y" && regexp.MustCompile("give (stop|cancel|reject|deliver)").MatchString(strings.Join(given, "\n")) {
				t.Fatalf("seed %d: %q is done by %q", seed, given, name)
			}
			d.text()
		}
		if len(d.world.gave()) == 0 {
			t.Errorf("seed %d: no key did anything", seed)
		}
	}
}
