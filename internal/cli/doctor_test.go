package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// Doctor prints its findings in the same order each time.
func TestDoctorOrder(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, ".trellis"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".trellis", "config.yaml"), []byte("sandbox: auto\nsandbox_write: [~/none]\nsandbox_home: [~/none]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		var out bytes.Buffer
		a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir, Now: time.Now, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}}}
		a.Run(context.Background(), []string{"doctor"})
		write, home := strings.Index(out.String(), "sandbox_write: "), strings.Index(out.String(), "sandbox_home: ")
		if write < 0 || home < write {
			t.Fatalf("got %s", &out)
		}
	}
}

// The fields of doctor --json are a contract. They include what a repair changes, and where it saved the original.
func TestDoctorJSON(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	task := filepath.Join(dir, ".trellis", "tasks", "02-01-x")
	if err := os.MkdirAll(task, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(task, "task.json"), []byte("{\n  \"id\": \"x\",\n  \"status\": done\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := ".trellis/tasks/02-01-x/task.json"
	for _, tt := range []struct {
		args          []string
		state, repair string
	}{
		{[]string{"doctor", "--json"}, "error", "possible"},
		{[]string{"doctor", "--json", "--repair"}, "error", "possible"},
		{[]string{"doctor", "--json", "--repair", "--yes"}, "ok", "done"},
	} {
		var out, said bytes.Buffer
		a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Dir: dir, Now: time.Now, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}}}
		if code := a.Run(context.Background(), tt.args); code != command.ExitUnmet { // no agent can be used
			t.Errorf("%v: got exit %d: %s", tt.args, code, &said)
		}
		var rows []map[string]any
		if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
			t.Fatalf("%v in %s", err, &out)
		}
		found := 0
		for _, row := range rows {
			if len(row) != 10 {
				t.Errorf("got the fields %v", row)
			}
			if row["check"] != "task.json" {
				continue
			}
			found++
			for field, want := range map[string]any{"state": tt.state, "repair": tt.repair, "file": file, "line": 3.0, "column": 13.0} {
				if row[field] != want {
					t.Errorf("%v: got %s %v, want %v", tt.args, field, row[field], want)
				}
			}
			diff, saved, hint := row["diff"].(string), row["saved"].(string), row["hint"].(string)
			if !strings.Contains(diff, "\n-  \"status\": done\n+  \"status\": \"done\"\n") || (hint == "") != (tt.repair == "done") ||
				strings.HasPrefix(saved, ".trellis/tasks/02-01-x/run/task.json.broken-") != (tt.repair == "done") {
				t.Errorf("%v: got diff %q, saved %q, hint %q", tt.args, diff, saved, hint)
			}
		}
		if found != 1 {
			t.Errorf("%v: got %s", tt.args, &out)
		}
	}
}

// Doctor checks whether the server of trellis-cluster answers.
func TestDoctorLooksForTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config := "cluster: {repo: acme, address: " + l.Addr().String() + "}\n"
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".trellis"), 0o755), os.WriteFile(filepath.Join(dir, ".trellis", "config.yaml"), []byte(config), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct {
		before func()
		want   string
	}{{func() {}, "(?m)^ok +server +something answers at 127.0.0.1:"}, {func() { l.Close() }, "(?m)^error +server +no Temporal server answers at 127.0.0.1:"}} {
		look.before()
		var out, said bytes.Buffer
		a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Dir: dir, Now: time.Now, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}}}
		if code := a.Run(t.Context(), []string{"doctor"}); code != command.ExitUnmet || !regexp.MustCompile(look.want).Match(out.Bytes()) {
			t.Errorf("exit %d, no %s in\n%s%s", code, look.want, &out, &said)
		}
	}
}
