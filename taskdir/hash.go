package taskdir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
)

// planFiles are the files that say what is to be done, apart from the context files.
var planFiles = []string{Requirement, PRD, Plan, Info, Design, Research}

// ContextFiles returns the names of the context files in dir, sorted: implement.jsonl and every other *.jsonl except
// approvals.jsonl and proofs.jsonl.
func ContextFiles(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing context files: %w", err)
	}
	var names []string
	for _, e := range list {
		name := e.Name()
		if strings.HasSuffix(name, ".jsonl") && name[0] != '.' && name != Approvals && name != Proofs && !e.IsDir() {
			names = append(names, name)
		}
	}
	return names, nil
}

// PlanHash returns the hash that an approval is bound to: "sha256:" and the hash of everything in dir that says what is to be
// done. That is one line per file, its sha256 and name as sha256sum prints them, first requirement.md, prd.md, plan.json,
// info.md, design.md and research.md as far as they exist, then the context files by name; and one line each for branch (its
// default when null), base_branch and verify of t, as JSON after their name, and for pipeline.approval.asked when it is not 0:
// decisions about an earlier plan don't apply to the next one.
func PlanHash(dir string, t *Task) (string, error) {
	context, err := ContextFiles(dir)
	if err != nil {
		return "", fmt.Errorf("hashing plan: %w", err)
	}
	sum := sha256.New()
	for _, name := range append(planFiles[:len(planFiles):len(planFiles)], context...) {
		_, file, err := durable.SumBelow(dir, name, maxSize(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("hashing plan: %w", err)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			name = strconv.Quote(name) // so that no name looks like two lines
		}
		fmt.Fprintf(sum, "%s  %s\n", file, name)
	}
	var base any // null if the task names none
	if t.BaseBranch != "" {
		base = t.BaseBranch
	}
	verify := append([]string{}, t.Pipeline.Verify...)
	type field struct {
		name  string
		value any
	}
	fields := []field{{"branch", t.BranchName()}, {"base_branch", base}, {"verify", verify}}
	if asked := t.Pipeline.Approval.Asked; asked != 0 {
		fields = append(fields, field{"asked", asked})
	}
	for _, field := range fields {
		raw, err := text.JSON(field.value)
		if err != nil {
			return "", fmt.Errorf("hashing plan: %w", err)
		}
		fmt.Fprintf(sum, "%s %s\n", field.name, raw)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
