package board_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// openAway opens a page in a tab that is hidden, as far as the page can tell.
func (w *world) openAway(path string) *tab {
	w.Helper()
	t := w.blank()
	t.onEachPage("let away = true; Object.defineProperty(document, 'hidden', {get: () => away})")
	return t.to(w.url + path)
}

// onEachPage has a script run on each page of the tab, before the page's own scripts.
func (t *tab) onEachPage(script string) {
	t.Helper()
	t.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// look makes the tab visible or hides it.
func (t *tab) look(at bool) {
	t.Helper()
	t.evaluate(fmt.Sprintf("away = %t, document.dispatchEvent(new Event('visibilitychange'))", !at))
}

// Of many tabs in a browser, the visible one is live and its orders work. There are 14, or 20 with TRELLIS_SOAK: more than a browser has
// connections for, six, have been visible, and more than six never were.
func TestTwentyTabs(t *testing.T) {
	many := 14
	if soak.Asked() {
		many = 20
	}
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.task("02-02-more", `{"title": "Another one", "status": "failed"}`, nil)
	w.serve()
	var tabs []*tab
	for i := range many {
		p := w.openAway([]string{"/", "/task/02-01-hello", "/task/02-02-more/log"}[i%3])
		p.until("document.getElementById('stream')") // a page that is opened while hidden is loaded
		if i%2 == 0 {
			p.look(true)
			p.live()
			p.look(false)
		}
		tabs = append(tabs, p)
	}
	for _, i := range []int{0, 1, many - 1} { // the second was never visible
		p := tabs[i]
		p.look(true)
		p.live()
		title := fmt.Sprintf("Seen in tab %d", i)
		doc := w.Read(".trellis/tasks/02-01-hello/task.json")
		_, rest, _ := strings.Cut(doc, `",`)
		w.Write(".trellis/tasks/02-01-hello/task.json", fmt.Sprintf(`{"title": %q,%s`, title, rest))
		p.shows(title)
		p.look(false)
	}
	tabs[1].look(true)
	tabs[1].live().click("#approve")
	tabs[1].shows("is approved by")
}

// A browser has six connections. Of more windows than that, those opened last are live. The others say that they are not until they
// get the focus, and orders work all the same.
func TestManyWindows(t *testing.T) {
	rest := 1
	if soak.Asked() {
		rest = 3
	}
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	var windows []*tab
	for range rest + 5 {
		windows = append(windows, w.open("/task/02-01-hello").live())
	}
	for i, p := range windows {
		want := map[bool]string{true: "rest", false: "on"}[i < rest]
		p.until(fmt.Sprintf("document.getElementById('live').dataset.state === %q", want))
	}
	windows[rest+4].click("#approve")
	for _, p := range windows[rest:] {
		p.until("!document.getElementById('approve')")
	}
	windows[0].evaluate("window.dispatchEvent(new Event('focus'))")
	windows[0].live().until("!document.getElementById('approve')")
	windows[rest].until("document.getElementById('live').dataset.state === 'rest'")
}

// Streams of one browser share its connections: the oldest has to rest. Other browsers, and requests that name none, are not affected.
func TestTabsOfABrowserRest(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	listen := func(browser string) *bufio.Scanner {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v/stream?path=/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Trellis-Browser", browser)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		lines := bufio.NewScanner(res.Body)
		lines.Scan()
		if !strings.HasPrefix(lines.Text(), "id: ") {
			t.Fatalf("got %q, want the beginning of a stream", lines.Text())
		}
		return lines
	}
	first, other, unknown := listen("a"), listen("b"), listen("")
	for range 5 {
		listen("a")
		listen("")
	}
	rests := false
	for first.Scan() {
		rests = rests || first.Text() == "event: rest"
	}
	if !rests {
		t.Error("the first stream of six ended without a word, want it told to rest")
	}
	w.task("02-02-more", `{"title": "Another one", "status": "failed"}`, nil)
	for name, lines := range map[string]*bufio.Scanner{"of another browser": other, "of an unknown one": unknown} {
		for lines.Scan() && !strings.Contains(lines.Text(), "Another one") {
		}
		if !strings.Contains(lines.Text(), "Another one") {
			t.Errorf("the stream %s has ended", name)
		}
	}
}

// A page on which nothing happens sends no requests.
func TestIdlePageAsksNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.task("02-02-more", `{"title": "Another one", "status": "failed"}`, nil)
	w.serve()
	p := w.blank()
	for _, path := range []string{"/", "/task/02-01-hello"} {
		p.to(w.url + path).live()
		p.until("performance.now() - Math.max(...performance.getEntriesByType('resource').map(r => r.startTime)) > 1000") // loading the page is over
		asked := p.evaluate("(since = performance.now(), performance.getEntriesByType('resource').length)")
		p.until("performance.now() - since > 2500")
		if got := p.evaluate("performance.getEntriesByType('resource').length"); got != asked {
			t.Errorf("%s: %s requests, want the %s that there were", path, got, asked)
		}
	}
}
