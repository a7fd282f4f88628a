package durable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	line1 = `{"n":1,"text":"first"}` + "\n"
	line2 = `{"n":2,"text":"second"}` + "\n"
	line3 = `{"n":3,"text":"third"}` + "\n"
)

func TestAppendFailsAtEveryStep(t *testing.T) {
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "approvals.jsonl")
		write(t, path, line1+`{"n":`)
		disk, steps := breakingDisk(n)
		err := disk.Append(path, []byte(line2), 0o600)
		if err == nil {
			if got, want := fmt.Sprint(*steps), "[create truncate write write sync syncdir]"; got != want {
				t.Errorf("got steps %s, want %s", got, want)
			}
			if got, want := read(t, path), line1+line2; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Errorf("step %d: got %v", n, err)
		}
		if got := read(t, path); n > 2 && got != line1 && got != line1+line2 {
			t.Errorf("step %d (%v): the failed append left %q", n, *steps, got)
		}
		if err := disk.Append(path, []byte(line3), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != line1+line3 && got != line1+line2+line3 {
			t.Errorf("step %d (%v): got %q", n, *steps, got)
		}
	}
}

func TestAppendOfAKilledProcess(t *testing.T) {
	torn := false
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "f")
		write(t, path, line1)
		err := play(t, "append-and-die", strconv.Itoa(n), path, line2).Run()
		got := read(t, path)
		torn = torn || !strings.HasSuffix(got, "\n")
		if err := new(durable.Disk).Append(path, []byte(line3), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != line1+line3 && got != line1+line2+line3 {
			t.Errorf("killed at step %d: got %q", n, got)
		}
		if err == nil {
			break
		}
	}
	if !torn {
		t.Error("no kill tore a line: this test proves nothing")
	}
}

func TestAppendMendsTheTail(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"nothing", "", line2},
		{"whole lines", line1, line1 + line2},
		{"torn line", line1 + `{"n":9,"te`, line1 + line2},
		{"torn first line", `{"n`, line2},
		{"zeros after a power cut", line1 + "\x00\x00\x00", line1 + line2},
		{"line of an editor without newline", line1 + strings.TrimSpace(line3), line1 + line3 + line2},
		{"a number may be half of one", line1 + "12", line1 + line2},
		{"blank tail", line1 + "  ", line1 + line2},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "f")
		if tt.content != "" {
			write(t, path, tt.content)
		}
		if err := new(durable.Disk).Append(path, []byte(strings.TrimSpace(line2)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// If several processes append at once, the file has every line once and as a whole.
func TestAppendByManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const processes, lines = 4, 30
	var waits []func() error
	for i := range processes {
		cmd := play(t, "append", path, strconv.Itoa(i), strconv.Itoa(lines))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, cmd.Wait)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	seen := map[string]int{}
	for line := range bytes.Lines([]byte(read(t, path))) {
		if !json.Valid(line) {
			t.Errorf("line %q is not whole", line)
		}
		seen[string(line)]++
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%d times %q", n, line)
		}
	}
	if got, want := len(seen), processes*lines; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
}

func appendMany(args []string) error {
	disk, _ := breakingDisk(0) // no step fails, but lines are written in halves, which must not be mixed up
	n, err := strconv.Atoi(args[2])
	for i := range n {
		line := fmt.Sprintf(`{"by":%s,"n":%d,"fill":"%s"}`, args[1], i, strings.Repeat("x", 500))
		if err := disk.Append(args[0], []byte(line), 0o600); err != nil {
			return err
		}
	}
	return err
}
