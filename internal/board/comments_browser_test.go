package board_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// wrote is true while a form for comments has the focus.
const wrote = "document.activeElement.matches('.comment-box textarea')"

// Comments stay in their tab until they are sent, also over reloads, and are sent once. Keys and the pointer work.
func TestCommentsInBrowser(t *testing.T) {
	w, id := failed(t)
	w.serve()
	p := w.open("/task/" + id + "/diff").live()
	p.until("document.querySelector('table.diff .no button[tabindex=\"0\"]')")
	p.keys("j")
	p.until("document.activeElement.ariaLabel === 'Comment on line 1 of hello.txt, new'")
	p.keys("c")
	p.until(wrote)
	p.evaluate("document.activeElement.value = ''") // the driver also types the character of a key that the page handled
	const markup = `</textarea><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`
	p.keys(markup)
	p.until("document.getElementById('comment-count').innerText === '1 comment'")
	// An unfinished comment is kept over a reload, and in the other layout.
	p.do(chromedp.Reload())
	p.until("document.querySelector('.comment-box textarea')")
	p.click("#layout")
	p.until("location.search === '?layout=split' && document.querySelector('.comment-box textarea')")
	if got := p.evaluate("document.querySelector('.comment-box textarea').value"); got != markup {
		t.Errorf("after a reload it says %q", got)
	}
	p.do(chromedp.Focus(chromedp.CSS(".comment-box textarea")))
	p.keys("\x1b")
	p.until("document.querySelector('.comment-box p') && document.activeElement.matches('.no button')")
	if got := p.evaluate("document.querySelector('.comment-box p').innerText + '/' + window.pwned"); got != markup+"/undefined" {
		t.Errorf("it is shown as %q", got)
	}
	// A comment can be changed and removed.
	p.keys("c")
	p.until(wrote)
	p.evaluate("(() => { const t = document.activeElement; t.value = 'Say hello.'; t.dispatchEvent(new Event('input')) })()")
	p.click(".comment-box .button")
	p.until("document.querySelector('.comment-box p').innerText === 'Say hello.'")
	p.click("#comment-list button")
	p.until("!document.querySelector('.comment-box') && document.getElementById('send-back').disabled")
	p.comment("hello.txt", 1, "Say hello.")
	// Another tab does not have the comment. Comments on a diff that has changed are not sent.
	other := w.open("/task/" + id + "/diff").live()
	other.until("document.querySelector('table.diff') && document.getElementById('comment-count').innerText === 'No comments'")
	at := regexp.MustCompile(`"worktree_path": "([^"]+)"`).FindStringSubmatch(w.Read(".trellis/tasks/" + id + "/task.json"))
	if err := os.WriteFile(filepath.Join(at[1], "hello.txt"), []byte("worse\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.click("#send-back")
	p.shows("the diff was changed since it was shown: nothing is sent, and your comments are kept")
	p.do(chromedp.Reload())
	p.shows("another line now")
	// However often the button is pressed, the comments are sent once.
	p.until("!document.getElementById('send-back').disabled")
	p.evaluate("(() => { const b = document.getElementById('send-back'); b.click(); b.click(); b.form.requestSubmit() })()")
	p.until("location.pathname === '/task/" + id + "'")
	p.until("document.querySelector('#task-head .badge.s-ready')")
	if got := p.evaluate("sessionStorage.getItem('trellis-comments:" + id + "')"); got != "null" {
		t.Errorf("left is %s", got)
	}
	kept, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/tasks", id, "run/feedback/*.md"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept is %v, %v", kept, err)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || !strings.Contains(string(text), "Comment on hello.txt:1 (new)\nThe line:\n```\nworse\n```\nThe comment:\n```\nSay hello.\n```") {
		t.Errorf("kept is %q, %v", text, err)
	}
}

// On a phone the form for a comment fits, also at a line that is wider than the screen.
func TestCommentsOnAPhone(t *testing.T) {
	w := newWorld(t, nil)
	w.changed("02-01-diff", map[string]string{"wide.txt": strings.Repeat("wide ", 200) + "\n", "b.txt": "new\n", "test.sh": "exit 1\n"})
	w.serve()
	for _, layout := range []string{"", "?layout=split"} {
		p := w.open("/task/02-01-diff/diff" + layout)
		p.do(chromedp.EmulateViewport(390, 844))
		p.until("document.querySelector('table.diff .no button')")
		p.comment("wide.txt", 1, "Shorter.")
		if got := p.evaluate("(() => { const b = document.querySelector('.comment-box').getBoundingClientRect(); return b.left >= 0 && b.right <= 390 && b.width > 250 && document.documentElement.scrollWidth <= 390 })()"); got != "true" {
			t.Errorf("%s: the form is at %s", layout, p.evaluate("JSON.stringify([document.querySelector('.comment-box').getBoundingClientRect(), document.documentElement.scrollWidth])"))
		}
		p.close()
	}
	// Keys reach both sides of a changed line.
	q := w.open("/task/02-01-diff/diff?layout=split&file=test.sh")
	q.until("document.querySelector('table.diff .no button')")
	q.keys("j")
	q.until("document.activeElement.ariaLabel === 'Comment on line 1 of test.sh, new'")
	q.do(chromedp.KeyEvent(kb.ArrowLeft))
	q.until("document.activeElement.ariaLabel === 'Comment on line 1 of test.sh, old'")
	q.keys("c")
	q.until(wrote)
	q.until("document.querySelector('.comment-box label').innerText === 'Comment on test.sh:1 (old)'")
	q.close()
	// A comment on another page of the diff is listed with a link to it.
	p := w.open("/task/02-01-diff/diff?file=b.txt")
	defer p.close()
	p.until("document.querySelector('table.diff .no button')")
	p.comment("b.txt", 1, "Why?")
	p.do(chromedp.Navigate(w.url + "/task/02-01-diff/diff?file=wide.txt"))
	p.until("document.getElementById('comment-count') && document.getElementById('comment-count').innerText === '1 comment'")
	p.click("#comment-list a")
	p.until("location.search === '?file=b.txt' && document.querySelector('.comment-box')")
}
