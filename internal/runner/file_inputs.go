package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// inputDir returns the folder that keeps the copy with this hash: of the file that runs, or of the list of finished steps.
func inputDir(dir, hash string) string {
	return filepath.Join(dir, taskdir.Run, "inputs", strings.TrimPrefix(hash, "sha256:"))
}

// finishedBy returns the steps that a run and those before it finished.
func finishedBy(dir string, h *journal.History) (map[string]string, error) {
	var in workflow.FileInput
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return nil, fmt.Errorf("reading the input of %s: %w", h.Run, err)
	}
	all, err := openFinished(dir, in.Finished)
	if err != nil {
		return nil, err
	}
	done, err := workflow.Finished(h)
	maps.Copy(all, done)
	return all, err
}

// keepFinished saves a list of finished steps and returns its hash, by which the input of a run refers to it.
func (s FileRunner) keepFinished(dir string, done map[string]string) (string, error) {
	if len(done) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return "", fmt.Errorf("encoding the finished steps: %w", err)
	}
	hash := agentcall.SHA256Hex(raw)
	if err := s.Disk.MkdirAll(inputDir(dir, hash), 0o700); err != nil {
		return "", err
	}
	return hash, s.Disk.WriteFile(filepath.Join(inputDir(dir, hash), "finished.json"), raw, 0o600)
}

func openFinished(dir, hash string) (map[string]string, error) {
	done := map[string]string{}
	if hash == "" {
		return done, nil
	}
	raw, err := durable.ReadBelow(inputDir(dir, hash), "finished.json", durable.MaxJournal)
	if err != nil {
		return nil, fmt.Errorf("reading the finished steps: %w", err)
	}
	if agentcall.SHA256Hex(raw) != hash {
		return nil, fmt.Errorf("%s was changed", filepath.Join(inputDir(dir, hash), "finished.json"))
	}
	if err := json.Unmarshal(raw, &done); err != nil {
		return nil, fmt.Errorf("reading the finished steps: %w", err)
	}
	return done, nil
}

// frozenFile returns the input of the run in dir, and the run's copy of the file.
func frozenFile(dir string, h *journal.History) (in workflow.FileInput, b *plan.Bundle, err error) {
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return in, nil, fmt.Errorf("reading the input of %s: %w", h.Run, err)
	}
	b, err = plan.OpenBundle(inputDir(dir, in.Bundle), in.Bundle)
	return in, b, err
}

// LoadFile reads a file of steps, which messages call name, and the files that it calls.
func LoadFile(file, name string, given map[string]string) (*plan.Bundle, []trellis.Problem) {
	return plan.Load(plan.LoadOptions{File: name, Given: given, Read: func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
		}
		return os.ReadFile(path)
	}})
}

// FileSince reports what became of the file of which a run has the copy b: whether it was edited or is gone. It reports
// neither for a pipe, which can't be read a second time.
func FileSince(file string, b *plan.Bundle) (edited, gone bool) {
	st, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, true
	}
	if err == nil && !st.Mode().IsRegular() {
		return false, false
	}
	now, _ := LoadFile(file, file, b.Given)
	return now == nil || now.Hash != b.Hash, false
}

// expectedFileState returns the state of a run that its proofs are compared with.
func expectedFileState(dir string, h *journal.History, b *plan.Bundle) proof.ExpectedState {
	w := proof.ExpectedState{Task: filepath.Base(dir), Plan: b.Hash, Steps: workflow.ProofSteps(b)}
	for n := range h.Number {
		w.Runs = append(w.Runs, fmt.Sprintf("%s/%d", w.Task, n+1))
	}
	var rep workflow.FileReport
	if h.Ended && json.Unmarshal(h.Out, &rep) == nil {
		w.Head = rep.Head
	}
	return w
}

// fileUsage returns what the agents of a run used, and those of the earlier runs with its ID.
func fileUsage(dir string, h *journal.History) (used trellis.Usage, err error) {
	files, err := journal.Archived(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return used, err
	}
	list := []*journal.History{h}
	for _, file := range files {
		old, err := journal.ReadFile(file)
		if err != nil {
			return used, err
		}
		list, used = append(list, old), used.Add(lostUsage(dir, old)) // lost calls of the last run are counted when it is resumed
	}
	for _, h := range list {
		u, err := workflow.UsageOf(h)
		if err != nil {
			return used, err
		}
		used = used.Add(u)
	}
	return used, nil
}
