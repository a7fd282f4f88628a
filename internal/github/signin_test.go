package github_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/github"
)

func TestWhatCanBeWrong(t *testing.T) {
	ctx := context.Background()
	f := &github.Client{Dir: t.TempDir(), Env: []string{"PATH=" + t.TempDir()}}
	if _, err := f.Find(ctx, "work"); !errors.Is(err, github.ErrNoProgram) {
		t.Errorf("got %v without a program", err)
	}
	for name, script := range map[string]string{
		"no JSON":    "echo no",
		"no number":  `echo '[{"url": "https://x/1", "state": "OPEN", "headRefName": "work"}]'`,
		"no address": `echo '[{"number": 1, "url": "javascript:x", "state": "OPEN", "headRefName": "work"}]'`,
		"no state":   `echo '[{"number": 1, "url": "https://x/1", "state": "odd", "headRefName": "work"}]'`,
		"too much":   "head -c 9000000 /dev/zero",
		"too slow":   "sleep 60",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		f := &github.Client{Dir: dir, Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Wall: time.Second}
		if pr, err := f.Find(ctx, "work"); err == nil {
			t.Errorf("%s: got %+v", name, pr)
		}
	}
}
