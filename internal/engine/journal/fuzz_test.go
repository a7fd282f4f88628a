package journal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// chained returns a journal of these records, to which it adds number, time and hash.
func chained(records []string) []byte {
	var b strings.Builder
	prev := ""
	for i, r := range records {
		line := fmt.Sprintf(`{"n":%d,%s,"at":"2026-11-20T13:00:00Z","p":"%s"}`, i+1, r, prev)
		b.WriteString(line + "\n")
		prev = hash(line)
	}
	return []byte(b.String())
}

func hash(line string) string {
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:16])
}

// checkChain returns an error if the numbers or hashes of the first n lines are wrong.
func checkChain(data []byte, n int) error {
	prev := ""
	for i, line := range strings.SplitN(string(data), "\n", n+1)[:n] {
		var r struct {
			N int
			P string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return err
		}
		if r.N != i+1 || r.P != prev {
			return fmt.Errorf("line %d: %+v after %s", i+1, r, prev)
		}
		prev = hash(line)
	}
	return nil
}

// Reading and executing any bytes ends without a panic, and a journal that is accepted has an unbroken chain up
// to its last line.
func FuzzJournal(f *testing.F) {
	golden, err := os.ReadFile("testdata/version-1.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)-7])
	f.Add(bytes.Replace(golden, []byte("dough"), []byte("doubt"), 1))
	f.Add([]byte("{}\n"))
	f.Add(chained([]string{run, `"k":"start","id":"sign#1","name":"sign","try":1`}))
	f.Fuzz(func(t *testing.T, data []byte) {
		tryJournal(t, data)
	})
}

// The same for the contents of records, which a fuzzer can change without breaking the chain.
func FuzzRecords(f *testing.F) {
	f.Add(`"k":"start","id":"sign#1","name":"sign","try":1,"in":"baking"` + "\n" + `"k":"done","id":"sign#1","out":{}`)
	f.Add(`"k":"signal","id":"1","name":"agree","in":{}` + "\n" + `"k":"cancel"`)
	f.Add(`"k":"start","id":"dough/bake#1","name":"bake","try":1,"in":"dough"` + "\n" + `"k":"done","id":"dough/bake#1","fail":{"code":"x","retryable":true}`)
	f.Add(`"k":"start","id":"x/await:agree#1","name":"await:agree","try":1` + "\n" + `"k":"signal","id":"1","name":"agree"` + "\n" + `"k":"done","id":"x/await:agree#1","sig":3`)
	f.Add(`"k":"end","out":7,"fail":{"code":"cancelled","detail":"x"}`)
	f.Fuzz(func(t *testing.T, records string) {
		tryJournal(t, chained(append([]string{run + `,"code":2,"in":{"Code":2}`}, strings.Split(records, "\n")...)))
	})
}

func tryJournal(t *testing.T, data []byte) {
	dir := memory(t)
	name := filepath.Join(dir, "journal.jsonl")
	must(os.WriteFile(name, data, 0o600))
	h, err := journal.Read(dir)
	if err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Fatal(err)
	}
	o := journal.Options{Dir: dir, Activities: idle(), ParkAfter: time.Nanosecond}
	r, openErr := journal.Open(o)
	if (openErr == nil) != (err == nil) {
		t.Fatalf("read: %v, opened: %v", err, openErr)
	}
	if err != nil {
		return
	}
	defer r.Close()
	kept, _ := os.ReadFile(name)
	n := bytes.Count(kept, []byte("\n"))
	if !bytes.HasPrefix(data, kept) || n < 1 || bytes.Count(data[len(kept):], []byte("\n")) > 1 {
		t.Fatalf("kept %q of %q", kept, data)
	}
	if err := checkChain(kept, n); err != nil {
		t.Fatalf("accepted a broken chain: %v", err)
	}
	if h.Run != r.History().Run || len(h.Calls) != len(r.History().Calls) {
		t.Fatalf("read %+v, opened %+v", h, r.History())
	}
	_, _ = journal.Execute(t.Context(), r, bakery)
	if _, err := journal.Read(dir); err != nil {
		t.Fatalf("after executing it: %v", err)
	}
}

// idle returns activities that do nothing and never fail.
func idle() []flow.Activity {
	nothing := func(context.Context, flow.Call, string) (string, error) { return "", nil }
	good := func(context.Context, flow.Call, int) (verdict, error) { return verdict{true}, nil }
	return []flow.Activity{bake.With(nothing), read.With(nothing), deliver.With(nothing), freeze.With(nothing), taste.With(good), ice.With(good),
		sign.With(func(context.Context, flow.Call, string) (struct{}, error) { return struct{}{}, nil })}
}
