package trust_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trust"
)

func ledgerIn(t *testing.T) *trust.Ledger {
	t.Helper()
	return &trust.Ledger{Path: filepath.Join(t.TempDir(), "trellis", "trust.jsonl")}
}

func ids(t *testing.T, l *trust.Ledger, repo string) string {
	t.Helper()
	list, _, err := l.Entries(repo)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

func TestLedgerIsTheUsersAlone(t *testing.T) {
	l := ledgerIn(t)
	if err := l.Add(trust.Entry{Repo: "r", ID: "a", How: trust.Made}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{l.Path: 0o600, filepath.Dir(l.Path): 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, st.Mode().Perm(), err, want)
		}
	}
	if err := os.Chmod(l.Path, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&trust.Ledger{Path: l.Path}).Entries("r"); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a ledger that others can write is believed: %v", err)
	}
	if err := l.Add(trust.Entry{Repo: "r", ID: "b", How: trust.Made}); err == nil {
		t.Error("a ledger that others can write is written")
	}
}

func TestLedgerReadsWhatOthersAppend(t *testing.T) {
	l := ledgerIn(t)
	other := &trust.Ledger{Path: l.Path}
	for n, id := range []string{"a", "b", "c"} {
		if err := []*trust.Ledger{other, l}[n%2].Add(trust.Entry{Repo: "r", ID: id, How: trust.Made}, trust.Entry{Repo: "elsewhere", ID: id, How: trust.Made}); err != nil {
			t.Fatal(err)
		}
		if got, want := ids(t, l, "r"), "a b c"[:2*n+1]; got != want {
			t.Errorf("after %s the ledger has %q, want %q", id, got, want)
		}
	}
	if err := os.Remove(l.Path); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, l, "r"); got != "" {
		t.Errorf("a ledger that was removed has %q", got)
	}
}

func TestLedgerPassesOverDamage(t *testing.T) {
	l := ledgerIn(t)
	if err := l.Add(trust.Entry{Repo: "r", ID: "a", How: trust.Made}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(l.Path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("nonsense\n{\"v\":9,\"repo\":\"r\",\"id\":\"x\",\"how\":\"made\"}\n{\"v\":1,\"repo\":\"r\",\"id\":\"torn")
	f.Close()
	if err := l.Add(trust.Entry{Repo: "r", ID: "b", How: trust.Made}); err != nil {
		t.Fatal(err)
	}
	_, problems, err := l.Entries("r")
	if err != nil || len(problems) != 2 || problems[0].Line != 2 || problems[1].Line != 3 {
		t.Errorf("problems are %v (%v), want those of lines 2 and 3", problems, err)
	}
	if got := ids(t, l, "r"); got != "a b" {
		t.Errorf("the ledger has %q, want a and b", got)
	}
}

func TestLedgerHasManyWriters(t *testing.T) {
	path := ledgerIn(t).Path
	const writers, each = 4, 10
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			l := &trust.Ledger{Path: path}
			for range each {
				if err := l.Add(trust.Entry{Repo: "r", ID: "a", How: trust.Made}, trust.Entry{Repo: "r", ID: "b", How: trust.Made}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	want := strings.TrimSuffix(strings.Repeat("a b ", writers*each), " ")
	if got := ids(t, &trust.Ledger{Path: path}, "r"); got != want {
		t.Errorf("lines are mixed or missing: %q", got)
	}
}

func TestLedgerWithoutAPlace(t *testing.T) {
	var none *trust.Ledger
	for _, l := range []*trust.Ledger{none, {}} {
		if got := ids(t, l, "r"); got != "" {
			t.Errorf("no ledger has %q", got)
		}
		if err := l.Add(trust.Entry{Repo: "r", ID: "a", How: trust.Made}); err != trust.ErrNoLedger {
			t.Errorf("adding to no ledger: %v", err)
		}
	}
}

// appenders is set in child processes of this test: it names the ledger that they append to.
const appenders = "TRELLIS_TEST_LEDGER"

// Lines that processes append at the same time are all there and whole, even if one process is killed (edge S2).
func TestProcessesAppend(t *testing.T) {
	const processes, each = 4, 50
	if path := os.Getenv(appenders); path != "" {
		l := &trust.Ledger{Path: path}
		for n := range each {
			e := trust.Entry{Repo: "r", ID: fmt.Sprint(os.Getpid(), "-", n), How: trust.Made, Text: strings.Repeat("x", 100)}
			if err := l.Add(e, trust.Entry{Repo: "other", ID: e.ID, How: trust.Made}); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	l := ledgerIn(t)
	var all []*exec.Cmd
	for range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcessesAppend$")
		cmd.Env = append(os.Environ(), appenders+"="+l.Path, "GORACE=atexit_sleep_ms=0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	killed := all[0]
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil && cmd != killed {
			t.Error(err)
		}
	}
	got := strings.Fields(ids(t, l, "r"))
	for _, cmd := range all[1:] {
		for n := range each {
			if id := fmt.Sprint(cmd.Process.Pid, "-", n); !slices.Contains(got, id) {
				t.Errorf("%s is lost", id)
			}
		}
	}
	if _, wrong, err := l.Entries("other"); err != nil || len(wrong) > 0 {
		t.Errorf("%d lines are damaged, %v", len(wrong), err)
	}
}

// BenchmarkLedger measures what one process spends on a ledger of 2,000 tasks in ten repositories: docs/reference/trust.md has the result.
func BenchmarkLedger(b *testing.B) {
	path := filepath.Join(b.TempDir(), "trust.jsonl")
	var text strings.Builder
	for n := range 40_000 {
		fmt.Fprintf(&text, `{"v":1,"repo":"%032x","id":"%064x","how":"made","at":"2026-11-23T08:00:00Z","subject":"11-23-task-%d","kind":"criterion","text":"%s"}`+"\n", n%10, n, n/20, strings.Repeat("word ", 8))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if list, _, err := (&trust.Ledger{Path: path}).Entries(fmt.Sprintf("%032x", 3)); err != nil || len(list) != 4000 {
			b.Fatal(len(list), err)
		}
	}
}
