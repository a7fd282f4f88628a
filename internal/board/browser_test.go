package board_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trellis-tasks/trellis/internal/board/boardtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shut != nil {
		shut()
	}
	for _, dir := range made {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// shut ends the browser that all tests share.
var shut func()

// browser is that browser. Its tabs share a process, since one for each would be a quarter of what a tab costs.
var browser = sync.OnceValues(func() (ctx context.Context, err error) {
	ctx, shut, err = boardtest.Browser(chromedp.Flag("process-per-site", true))
	return ctx, err
})

// tab is a page of the board in the browser.
type tab struct {
	*world
	ctx   context.Context
	close func() // a browser has six connections for all its visible tabs
}

// open opens a page of the board in a tab of its own.
func (w *world) open(path string) *tab {
	w.Helper()
	return w.blank().to(w.url + path)
}

// to navigates the tab to another page. It does not reload the page that is open, since only the part after # differs.
func (t *tab) to(address string) *tab {
	t.Helper()
	t.do(chromedp.Navigate(address + "#" + key))
	return t
}

// blank opens an empty tab.
func (w *world) blank() *tab {
	w.Helper()
	b, err := browser()
	if err != nil && os.Getenv("CI") == "" {
		w.Skipf("no chromium-headless-shell, which make setup installs: %v", err)
	} else if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b)
	w.Cleanup(cancel)
	ctx, done := context.WithTimeout(ctx, 20*time.Minute)
	w.Cleanup(done)
	t := &tab{w, ctx, cancel}
	t.do(chromedp.EmulateViewport(1440, 900))
	return t
}

func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(t.ctx, steps...); err != nil {
		t.Fatalf("%v\n%s", err, t.text())
	}
}

// text returns what the page shows.
func (t *tab) text() string {
	text, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until an expression is true, also while the tab navigates to another page.
func (t *tab) until(expression string) {
	t.Helper()
	for {
		_, err := chromedp.Run(t.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingInterval(60*time.Millisecond), chromedp.WithPollingTimeout(15*time.Minute)))
		if err == nil {
			return
		}
		left := strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated")
		if !left || t.ctx.Err() != nil { // the tab was not navigated in the meantime
			t.Fatalf("%s: %v\n%s", expression, err, t.text())
		}
	}
}

func (t *tab) shows(text string) {
	t.Helper()
	t.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// live waits until the page receives events.
func (t *tab) live() *tab {
	t.Helper()
	t.until("document.getElementById('live').dataset.state === 'on'")
	return t
}

func (t *tab) evaluate(expression string) string {
	t.Helper()
	v, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (t *tab) keys(keys string) {
	t.Helper()
	t.do(chromedp.KeyEvent(keys))
}

// press presses a key that the page handles itself. No character is typed, as the driver would otherwise do.
func (t *tab) press(key rune) {
	t.Helper()
	t.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, event := range kb.Encode(key) {
			if event.Type == kb.KeyChar {
				continue
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (t *tab) click(css string) {
	t.Helper()
	t.do(chromedp.Click(chromedp.CSS(css)))
}

func TestColumnsLive(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	p := w.open("/").live()
	p.shows("Say hello")
	if got := p.evaluate("location.href"); strings.Contains(got, key) {
		t.Errorf("the address is %s, want it without the key", got)
	}
	// An event changes the page, and the focus stays.
	p.do(chromedp.Focus(chromedp.CSS("a.open")))
	w.task("02-02-more", `{"title": "Another one", "status": "failed", "pipeline": {"failure": {"code": "verify_failed", "detail": "sh test.sh"}}}`, nil)
	p.shows("Another one")
	p.shows("verify_failed")
	if got := p.evaluate("document.activeElement.dataset.task"); got != "02-01-hello" {
		t.Errorf("the focus is on %q, want it to stay on the card", got)
	}
	// A removed task leaves the page.
	if err := os.RemoveAll(filepath.Join(w.Dir, ".trellis/tasks/02-02-more")); err != nil {
		t.Fatal(err)
	}
	p.until("!document.body.innerText.includes('Another one')")
}

func TestApproveInBrowser(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	p := w.open("/task/02-01-hello").live()
	p.shows("waits for approval")
	other := w.open("/task/02-01-hello").live()
	p.click("#approve")
	p.shows("is approved by")
	// The other tab shows the decision too.
	other.until("!document.getElementById('approve')")
	if text := w.Read(".trellis/tasks/02-01-hello/approvals.jsonl"); !strings.Contains(text, `"approve"`) {
		t.Errorf("got %s, want an approval", text)
	}
}

// An approval applies to the plan that was shown.
func TestApprovalOfAnotherPlan(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	_, body := w.ask("GET", "/v/task/02-01-hello", nil)
	_, rest, _ := strings.Cut(body, `name="shown" value="`)
	hash, _, _ := strings.Cut(rest, `"`)
	w.Write(".trellis/tasks/02-01-hello/prd.md", "# Do harm\n\n## Acceptance Criteria\n\n- [ ] harm (verify: `true`)\n")
	if code, said := w.ask("POST", "/v/do/approve/02-01-hello", nil, "shown="+hash); code != 409 || !strings.Contains(said, "changed since it was shown") {
		t.Errorf("got %d %s, want a refusal", code, said)
	}
	if code, said := w.ask("POST", "/v/do/approve/02-01-hello", nil, "shown="); code != 400 {
		t.Errorf("without a hash: got %d %s, want a refusal", code, said)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, ".trellis/tasks/02-01-hello/approvals.jsonl")); err == nil {
		t.Error("something was approved")
	}
}

func TestScriptDoesNotRun(t *testing.T) {
	w := newWorld(t, nil)
	w.bad("02-01-bad")
	w.serve()
	p := w.blank()
	for _, path := range []string{"/", "/task/02-01-bad", "/task/02-01-bad/report", "/task/02-01-bad/files/note.txt", "/task/02-01-bad/files/prd.md"} {
		p.to(w.url + path)
		p.until("document.querySelector('#main a, #main article')")
		if got := p.evaluate("window.pwned"); got != "undefined" {
			t.Errorf("%s: a script ran", path)
		}
	}
	// The policy also stops scripts that are inserted into the page.
	p.to(w.url + "/").live()
	p.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s); document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned=1\">') })()")
	if got := p.evaluate("window.pwned"); got != "undefined" {
		t.Error("the policy lets a script run")
	}
	if text := w.Read(".trellis/tasks/02-01-bad/task.json"); !strings.Contains(text, `"failed"`) {
		t.Errorf("the task was changed: %s", text)
	}
}

func TestEditConflict(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	p := w.open("/task/02-01-hello/files/prd.md")
	p.until("document.getElementById('text')")
	p.evaluate("(() => { const t = document.getElementById('text'); t.value = t.value.replace('A greeting.', 'Mine.') })()")
	was := w.Read(".trellis/tasks/02-01-hello/prd.md")
	w.Write(".trellis/tasks/02-01-hello/prd.md", strings.Replace(was, "A greeting.", "Theirs.", 1))
	p.click("#save")
	p.shows("was changed meanwhile")
	if got := w.Read(".trellis/tasks/02-01-hello/prd.md"); !strings.Contains(got, "Theirs.") {
		t.Errorf("got %s, want what was written meanwhile", got)
	}
	if got := p.evaluate("document.getElementById('text').value"); !strings.Contains(got, "Mine.") {
		t.Errorf("got %s, want what the person wrote", got)
	}
	p.click("#save") // having seen both texts
	p.shows("prd.md is saved")
	if got, want := w.Read(".trellis/tasks/02-01-hello/prd.md"), strings.Replace(was, "A greeting.", "Mine.", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReconnects(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	p := w.open("/").live()
	p.shows("Say hello")
	_, port, _ := strings.Cut(strings.TrimPrefix(w.url, "http://"), ":")
	if _, err := fmt.Sscan(port, &w.o.Address.Port); err != nil {
		t.Fatal(err)
	}
	w.end()
	p.shows("not connected")
	w.task("02-02-more", `{"title": "While nobody looked", "status": "failed"}`, nil)
	w.serve()
	p.live()
	p.shows("While nobody looked")
}

func TestNoKey(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	p := w.open("/")
	p.shows("Say hello")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(w.url+"/#"+strings.Repeat("A", len(key))))
	p.shows("The key is refused")
	if strings.Contains(p.text(), "Say hello") {
		t.Error("a page with a wrong key shows tasks")
	}
}

// Keys reach the tasks, their pages, the help and the search, and an order asks before it cancels.
func TestKeys(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.task("02-02-more", `{"title": "Another one", "status": "failed", "priority": "P0"}`, nil)
	w.serve()
	p := w.open("/").live()
	p.shows("Another one")
	p.keys("j")
	p.until("document.activeElement.dataset.task === '02-02-more'")
	p.keys("j")
	p.until("document.activeElement.dataset.task === '02-01-hello'")
	p.keys("?")
	p.until("document.getElementById('keys').open")
	p.keys("\x1b")
	p.until("!document.getElementById('keys').open")
	p.press('/')
	p.until("document.activeElement.id === 'q'")
	p.keys("another")
	p.until("document.querySelectorAll('.card').length === 1 && document.activeElement.id === 'q'")
	p.keys("\x1b")
	p.until("document.activeElement === document.body")
	p.keys("j")
	p.until("document.activeElement.dataset.task === '02-02-more'")
	p.keys("\r")
	p.until("location.pathname === '/task/02-02-more'")
	p.live()
	p.keys("5")
	p.until("location.pathname === '/task/02-02-more/files'")
	p.live()
	p.keys("c")
	p.until("document.querySelector('dialog[open] #sure')")
	p.keys("\x1b")
	p.until("!document.querySelector('dialog[open]')")
	if text := w.Read(".trellis/tasks/02-02-more/task.json"); !strings.Contains(text, `"failed"`) {
		t.Errorf("the task was cancelled without a yes: %s", text)
	}
	p.keys("b")
	p.until("location.pathname === '/'")
}

// Characters that are typed before the server has answered the search for the first ones are searched for too.
func TestSearchFasterThanTheServer(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.task("02-02-more", `{"title": "Another one", "status": "failed"}`, nil)
	w.serve()
	p := w.open("/").live()
	p.shows("Another one")
	p.evaluate(`(window.held = [], window.real = window.fetch, window.fetch = (...a) => new Promise((done, fail) => held.push(() => real(...a).then(done, fail))))`)
	p.press('/')
	for i, letter := range []string{"h", "e", "l"} {
		p.keys(letter)
		p.until(fmt.Sprintf("new URLSearchParams(location.search).get('q') === 'hel'.slice(0, %d)", i+1))
	}
	p.evaluate("(window.fetch = real, held.forEach(go => go()))")
	p.until("document.querySelectorAll('.card').length === 1 && document.getElementById('q').value === 'hel'")
}

// scheme sets the colour scheme and the width of the page.
func (t *tab) scheme(name string, width int64) {
	t.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}
