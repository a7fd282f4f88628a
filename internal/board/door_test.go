package board_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The file that opens the board leads a browser to its tasks, and the address does not keep the key.
func TestDoorLeadsToTheBoard(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	door, err := w.p.Env.BoardDoor(w.Dir, w.url+"/#"+key)
	if err != nil {
		t.Fatal(err)
	}
	p := w.blank()
	p.do(chromedp.Navigate("file://" + door))
	p.shows("Say hello")
	p.live()
	if got := p.evaluate("location.href"); got != w.url+"/" || strings.Contains(got, key) {
		t.Errorf("the address is %s, want %s/", got, w.url)
	}
}
