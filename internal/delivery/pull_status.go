package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Pull is the pull request of a task when it was last read. Its JSON is a contract with scripts.
type Pull struct {
	PRState
	At string `json:"at"` // when it was read; RFC 3339, UTC
	// Modules are the pull requests of submodules, which are to be merged first.
	Modules []ModulePull `json:"submodules"`
	ReactionState
}

// ModulePull is the pull request of a submodule at that time.
type ModulePull struct {
	Path string `json:"path"`
	PRState
}

// PRState is the state of a pull request.
type PRState struct {
	Number  int      `json:"number"`
	URL     string   `json:"url"`
	State   string   `json:"state"` // draft, open, merged or closed
	Checks  string   `json:"checks"`
	Failing []string `json:"failing"` // names of the checks that failed
	Review  string   `json:"review"`
}

// ViewCommand returns the command that opens the pull request in a browser.
func (p PRState) ViewCommand() string {
	if strings.Contains(p.URL, "/-/merge_requests/") {
		return fmt.Sprintf("glab mr view --web %d", p.Number)
	}
	return fmt.Sprintf("gh pr view --web %d", p.Number)
}

// stateOf returns the state of a pull request, and for an open one asks for its checks and reviews.
func stateOf(ctx context.Context, f Forge, pr *forge.PR) (p PRState, s forge.PRStatus, err error) {
	p = PRState{Number: pr.Number, URL: pr.URL, State: strings.ToLower(pr.State), Failing: []string{}}
	if pr.State != forge.Open {
		return p, s, nil
	}
	if pr.Draft {
		p.State = "draft"
	}
	if s, err = f.Status(ctx, pr); err != nil {
		return p, s, err
	}
	p.Checks, p.Review, p.Failing = s.Checks, s.Review, append(p.Failing, s.Failing...)
	return p, s, nil
}

// ReactionState says how the task deals with what is wrong with its pull request.
type ReactionState struct {
	Reacted []string `json:"reacted"` // names of the findings for which runs were started, oldest first
	Rounds  int      `json:"rounds"`  // how many rounds those runs took
	Note    string   `json:"note"`    // what is being done, or why nothing is; "" if nothing is wrong
}

// pullFile is the file with a Pull, in the folder of a task's run.
const pullFile = "pull.json"

// ReadPull returns the recorded pull request of the task in dir, nil if none was ever seen.
func ReadPull(dir string) (*Pull, error) {
	data, err := durable.ReadBelow(dir, filepath.Join(taskdir.Run, pullFile), durable.MaxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p Pull
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is known of the pull request: %w", err)
	}
	if p.Reacted == nil {
		p.Reacted = []string{}
	}
	if p.Modules == nil {
		p.Modules = []ModulePull{}
	}
	return &p, nil
}

func (p Pull) write(disk *durable.Disk, dir string) error {
	if p.Reacted == nil {
		p.Reacted = []string{} // scripts expect a list
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(dir, taskdir.Run, pullFile), append(data, '\n'), 0o600)
}

// NotePull replaces the ReactionState of the recorded pull request of the task in dir. It does nothing if none is recorded.
func NotePull(disk *durable.Disk, dir string, n ReactionState) error {
	p, err := ReadPull(dir)
	if err != nil || p == nil || p.Note == n.Note && p.Rounds == n.Rounds && slices.Equal(p.Reacted, n.Reacted) {
		return err
	}
	p.ReactionState = n
	return p.write(disk, dir)
}
