package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// reader returns a site that reads the day's ledger as another process would.
func reader(root string, now time.Time) *runner.Site {
	return &runner.Site{Store: taskdir.Store{Root: root}, Config: &config.Config{}, Now: func() time.Time { return now }}
}

// A day's ledger loses no line when many processes write and read it at the same time, and is folded to a small file afterwards.
func TestLedgerIsFolded(t *testing.T) {
	t.Parallel()
	root, now := t.TempDir(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)
	path := filepath.Join(root, ".trellis", ".runtime", "spend", now.Format(time.DateOnly)+".jsonl")
	const writers, lines = 6, 100
	early := reader(root, now) // has read less of the file than is folded later
	if err := runner.AppendLine(nil, path, []byte(`{"used": {"seconds": 1}}`)); err != nil {
		t.Fatal(err)
	}
	if used, err := early.Budgets().Today(); err != nil || used.Seconds != 1 {
		t.Fatalf("got %+v, %v", used, err)
	}
	line := fmt.Sprintf(`{"task": %q, "call": "x", "used": {"input_tokens": 1, "cost_usd": 0.5}}`, strings.Repeat("a", 10<<10))
	site := reader(root, now)
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			for range lines {
				if err := runner.AppendLine(nil, path, []byte(line)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { work.Wait(); close(ended) }()
	for last, done := int64(0), false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		used, err := site.Budgets().Today()
		if err != nil || used.Tokens() < last || done && used.Tokens() != writers*lines {
			t.Fatalf("got %d tokens after %d, of %d, %v", used.Tokens(), last, writers*lines, err)
		}
		last = used.Tokens()
	}
	for _, s := range []*runner.Site{early, reader(root, now)} {
		if used, err := s.Budgets().Today(); err != nil || used.Tokens() != writers*lines || *used.CostUSD != writers*lines/2 || used.Seconds != 1 {
			t.Errorf("another process reads %+v, %v", used, err)
		}
	}
	// Nobody waits to fold: as long as others write, the file is not folded. A writer that is alone folds it.
	if err := runner.AppendLine(nil, path, []byte(line)); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 1<<20 {
		t.Errorf("the file: %v, %v", st.Size(), err)
	}
}
