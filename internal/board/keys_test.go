package board_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// reachable selects everything on a page that the tab key has to reach.
const reachable = `[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')].filter(e => e.checkVisibility() && !e.disabled && e.tabIndex >= 0)`

// The tab key reaches everything on a page that can be used, and an outline shows where the focus is.
func TestTabReachesAll(t *testing.T) {
	w := newWorld(t, map[string]string{".trellis/objectives/search.md": roadmap})
	w.shelf()
	w.changed("02-09-diff", map[string]string{"test.sh": "exit 0 # more\n"})
	w.serve()
	p := w.blank()
	for _, path := range []string{"/", "/plan", "/objectives", "/stats", "/task/02-03-paging", "/task/02-02-auth/log", "/task/02-02-auth/report", "/task/02-03-paging/files", "/task/02-03-paging/files/prd.md", "/task/02-02-auth/proofs", "/task/02-09-diff/diff"} {
		p.to(w.url + path)
		p.until("document.querySelector('#main h1') && document.getElementById('live').dataset.state !== 'wait'")
		p.evaluate("window.open_ = new Set(" + reachable + "), window.plain = []")
		for range 120 {
			p.keys(kb.Tab)
			if p.evaluate(`(() => {
				const on = document.activeElement, how = getComputedStyle(on);
				if (!open_.delete(on)) return on === document.body;
				if (how.outlineStyle === 'none' || parseFloat(how.outlineWidth) < 2) plain.push(on.outerHTML.slice(0, 120));
				return open_.size === 0;
			})()`) == "true" {
				break
			}
		}
		if got := p.evaluate("[...open_].map(e => e.outerHTML.slice(0, 120)).join('\\n')"); got != "" {
			t.Errorf("%s: the tab key does not come to\n%s", path, got)
		}
		if got := p.evaluate("plain.join('\\n')"); got != "" {
			t.Errorf("%s: nothing shows that the focus is on\n%s", path, got)
		}
	}
}

// tabTo presses the tab key until the element has the focus.
func (t *tab) tabTo(css string) {
	t.Helper()
	for range 120 {
		t.keys(kb.Tab)
		if t.evaluate(fmt.Sprintf("document.activeElement.matches(%q)", css)) == "true" {
			return
		}
	}
	t.Fatalf("the tab key does not come to %s\n%s", css, t.text())
}

// Every order can be given by keys alone. What a person has typed stays when the page changes.
func TestOrdersByKeys(t *testing.T) {
	w := newWorld(t, nil)
	told := w.fakeSelf()
	for _, id := range []string{"02-01-yes", "02-02-no", "02-03-edit"} {
		w.planned(id)
	}
	w.task("02-04-done", `{"title": "Done", "name": "done", "status": "review"}`, nil)
	w.task("02-05-ready", `{"title": "Ready", "name": "ready", "status": "ready"}`, nil)
	w.serve()
	status := func(id, want string) {
		t.Helper()
		if got := w.Read(".trellis/tasks/" + id + "/task.json"); !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("%s: got %s, want it %s", id, got, want)
		}
	}

	p := w.blank()
	p.to(w.url + "/task/02-01-yes").live()
	p.tabTo("#reason")
	p.keys("looks right")
	doc := w.Read(".trellis/tasks/02-01-yes/task.json")
	w.Write(".trellis/tasks/02-01-yes/task.json", strings.Replace(doc, "Say hello", "Say good day", 1))
	p.until("document.querySelector('#task-head h1').innerText === 'Say good day'")
	if got, want := p.evaluate("document.activeElement.id + ': ' + document.getElementById('reason').value"), "reason: looks right"; got != want {
		t.Errorf("after the page has changed: got %q, want %q", got, want)
	}
	p.tabTo("#approve")
	p.keys(kb.Enter)
	p.shows("is approved by")

	p.to(w.url + "/task/02-02-no").live()
	p.tabTo("#reason")
	p.keys("too much" + kb.Escape + "x")
	p.shows("rejected")
	status("02-02-no", "rejected")

	p.to(w.url + "/task/02-03-edit").live()
	p.keys("5")
	p.until("location.pathname.endsWith('/files')")
	p.live()
	p.tabTo(`a[href$="/files/prd.md"]`)
	p.keys(kb.Enter)
	p.until("document.getElementById('text')")
	p.tabTo("#text")
	p.keys("<!-- by hand -->\r")
	p.tabTo("#save")
	p.keys(kb.Enter)
	p.shows("prd.md is saved")
	if got := w.Read(".trellis/tasks/02-03-edit/prd.md"); !strings.Contains(got, "<!-- by hand -->\n") {
		t.Errorf("got %s, want what was typed", got)
	}

	for _, order := range []struct{ id, key, want string }{
		{"02-04-done", "d", "deliver -- 02-04-done"}, {"02-04-done", "c", "cancel -- 02-04-done"}, {"02-05-ready", "s", "start --detach -- 02-05-ready"},
	} {
		p.do(chromedp.Navigate("about:blank")) // loads the page again if the previous order was for the same task
		p.to(w.url + "/task/" + order.id).live()
		p.keys(order.key)
		if order.key != "s" { // start does not ask first
			p.until("document.querySelector('dialog[open] #sure') === document.activeElement")
			p.keys(kb.Enter)
		}
		p.shows("✓ told")
		if got := told(); got != order.want {
			t.Errorf("%s: got %q, want %q", order.key, got, order.want)
		}
	}

	p.to(w.url + "/task/02-04-done/log").live()
	p.keys("f")
	p.until("document.querySelector('#follow[aria-pressed=false]')")
	p.keys("f")
	p.until("document.querySelector('#follow[aria-pressed=true]')")

	p.to(w.url + "/").live()
	p.tabTo("#by-status")
	p.keys(kb.ArrowDown + kb.ArrowDown) // to ready
	p.until("document.querySelectorAll('.card').length === 1 && document.activeElement.id === 'by-status'")
	p.tabTo("a.open")
	p.keys("n")
	p.until("document.getElementById('requirement')")
	p.tabTo("#requirement")
	p.keys("Say hello in hello.txt")
	p.tabTo("#name")
	p.keys("typed")
	p.tabTo("#plan-form button")
	p.keys(kb.Enter)
	p.shows("✓ told")
	if got := told(); !strings.Contains(got, "plan") || !strings.Contains(got, "typed") {
		t.Errorf("got %q, want a plan of that name", got)
	}
}

// fakeSelf has orders start a program that records its arguments. told returns those of its last start.
func (w *world) fakeSelf() (told func() string) {
	w.o.Self = filepath.Join(w.TempDir(), "trellis")
	if err := os.WriteFile(w.o.Self, []byte("#!/bin/sh\necho \"$*\" >\"$0.told\"\necho told\n"), 0o755); err != nil {
		w.Fatal(err)
	}
	return func() string {
		data, err := os.ReadFile(w.o.Self + ".told")
		if err != nil {
			w.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
}
