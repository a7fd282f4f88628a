package board_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/taskdir"
)

// axe returns the script of axe-core 4.14.1, as published at npm.
func axe(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../.tools/axe/node_modules/axe-core/axe.min.js")
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("no axe-core, which make setup installs: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	const want = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Fatalf("axe-core has the sum %s, want %s", got, want)
	}
	return string(data)
}

// barred is something on a page that bars people from using it.
type barred struct {
	Rule, Impact, Where, Why string
}

// looks runs axe on a page and returns the serious findings. Where axe can't tell the background of a text, as in drawings, the
// contrast is computed here, from the shape or from the nearest element with a background.
const looks = `(() => {
	const parts = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = parts(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = el => {
		const shape = el.parentElement.tagName === 'g' && el.parentElement.querySelector('rect');
		if (shape) return getComputedStyle(shape).fill;
		while (el && parts(getComputedStyle(el).backgroundColor)[3] === 0) el = el.parentElement;
		return el ? getComputedStyle(el).backgroundColor : 'rgb(255, 255, 255)';
	};
	const contrast = el => {
		const is = getComputedStyle(el), [a, b] = [el.closest('svg') ? is.fill : is.color, behind(el)].map(light);
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	};
	const open = found => found.incomplete.filter(v => v.id === 'color-contrast').flatMap(v => v.nodes).map(n => [contrast(n.element), n]);
	return axe.run(document, {resultTypes: ['violations', 'incomplete'], elementRef: true}).then(found => JSON.stringify([
		...found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').flatMap(v => v.nodes.map(n => ({rule: v.id, impact: v.impact, where: n.html.slice(0, 300), why: n.failureSummary}))),
		...open(found).filter(([c]) => !(c >= 4.5)).map(([c, n]) => ({rule: 'contrast', impact: 'serious', where: n.html.slice(0, 300), why: 'it is ' + c})),
	]));
})()`

// barriers returns the findings for the page.
func (t *tab) barriers() (list []barred) {
	t.Helper()
	found, err := chromedp.Run(t.ctx, chromedp.Evaluate[string](looks, chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal([]byte(found), &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNobodyIsBarred has axe check every page in light and dark, and at the widths of a screen and of a phone: two of the four
// combinations for each page, all with TRELLIS_SOAK. One tab visits all pages, since each tab has to be sent half a megabyte of axe.
func TestNobodyIsBarred(t *testing.T) {
	script := axe(t)
	w := newWorld(t, map[string]string{".trellis/objectives/search.md": roadmap, "a.go": "package a\n\nvar name = \"old\"\n"})
	w.shelf()
	w.states()
	w.changed("02-20-diff", map[string]string{"a.go": "package a\n\n// name is new.\nvar name = \"new\"\n", "b.md": "# More\n"})
	w.serve()
	p := w.blank()
	p.onEachPage(script)
	for _, path := range []string{"/", "/?status=failed&q=export", "/plan", "/objectives", "/stats", "/task/02-03-paging", "/task/02-04-export", "/task/02-02-auth/report", "/task/02-04-export/log",
		"/task/02-20-diff/diff", "/task/02-20-diff/diff?layout=split", "/task/02-03-paging/files", "/task/02-03-paging/files/prd.md", "/task/02-02-auth/files/report.md", "/task/02-02-auth/proofs", "/task/none"} {
		p.to(w.url + path)
		p.until("!document.querySelector('#main').innerText.includes('Loading') && document.querySelector('#main h1')")
		p.inEachLook(path)
	}
	p.to(w.url + "/").live()
	p.keys("?")
	p.until("document.getElementById('keys').open")
	p.inEachLook("the sheet of keys")
	p.to(w.url + "/task/02-03-paging").live()
	p.click("#reject")
	p.shows("✗")
	p.inEachLook("an order that is refused")
	p.keys("c")
	p.until("document.querySelector('dialog[open] #sure')")
	p.inEachLook("a question")
	w = asking(t)
	for _, path := range []string{"/stats", "/task/02-01-live", "/task/02-01-live/log"} {
		p.to(w.url + path)
		p.until("document.querySelector('svg.plot, #log li')")
		p.inEachLook(path)
	}
}

func (t *tab) inEachLook(page string) {
	t.Helper()
	for i, width := range []int64{1440, 390} {
		for j, scheme := range []string{"light", "dark"} {
			if (i+j+len(page))%2 == 1 && !soak.Asked() { // on half of the pages, check the screen in light and the phone in dark
				continue
			}
			t.scheme(scheme, width)
			for _, b := range t.barriers() {
				t.Errorf("%s, %s, at %d: %s (%s)\n\t%s\n\t%s", page, scheme, width, b.Rule, b.Impact, b.Where, strings.ReplaceAll(b.Why, "\n", "\n\t"))
			}
		}
	}
}

// states adds a task of each status that shelf lacks. A process holds the lock of one of them.
func (w *world) states() {
	for i, status := range []string{"in_progress", "paused", "cancelled", "in_progress"} {
		w.task(fmt.Sprintf("02-1%d-state", i), fmt.Sprintf(`{"title": "A task that is %s", "status": %q, "priority": "P%d", "pipeline": {"phase": "check", "round": 2}}`, status, status, i), map[string]string{"prd.md": "# A task\n"})
	}
	lock := filepath.Join(w.Dir, ".trellis/tasks/02-13-state", taskdir.RunLock)
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		w.Fatal(err)
	}
	held, err := durable.TryLock(lock, durable.Holder{PID: os.Getpid()})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = held.Unlock() }) // the test is over
}
