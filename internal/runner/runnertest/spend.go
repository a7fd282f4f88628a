package runnertest

import (
	"path/filepath"
	"time"
)

// Variables of a child whose agent is a script that counts against a day's budget.
const (
	ChildScript = "TRELLIS_TEST_SCRIPT"
	ChildDay    = "TRELLIS_TEST_DAY_TOKENS"
)

// Spends is an agent for all roles that reports 800 tokens at every call, and the cost that is filled in. A file hang-TASK-ROLE makes a
// call of that role hang afterwards until it is ended.
const Spends = `cat > /dev/null
test "$TRELLIS_ROLE" = accept || echo x >> notes.txt
echo "$TRELLIS_TASK_ID $TRELLIS_ROLE" >> "$TRELLIS_REPO/../calls.log"
hangs=; rm "$TRELLIS_REPO/../hang-$TRELLIS_TASK_ID-$TRELLIS_ROLE" 2> /dev/null && hangs=yes
echo '{"type": "usage", "usage": {"input_tokens": 700, "output_tokens": 100, "cost_usd": %s}}'
test -z "$hangs" || exec sleep 60
test "$TRELLIS_ROLE" = accept && echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt\"}]}"}'
test "$TRELLIS_ROLE" = accept || echo '{"type": "result", "text": "done"}'
`

// Noon sets the site's clock to noon, days from today.
func (w *World) Noon(days int) {
	began := time.Now()
	y, m, d := began.Date()
	noon := time.Date(y, m, d+days, 12, 0, 0, 0, time.Local)
	w.Site.Now = func() time.Time { return noon.Add(time.Since(began)) }
}

func (w *World) Ready(names ...string) (dirs []string) {
	w.Helper()
	for _, name := range names {
		dir := filepath.Join(w.Site.Store.Tasks(), name)
		if err := Lay(dir, "ready"); err != nil {
			w.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
