package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// prove runs the command of each criterion that has one. What the commands leave behind is undone, as with checks.
func (pv *prover) prove(ctx context.Context, c flow.Call, in proveIn) (out []Judged, err error) {
	if !slices.ContainsFunc(in.Criteria, func(cr Criterion) bool { return cr.Verify != "" }) {
		return pv.proveAt(ctx, c, in)
	}
	snap, _, end, err := pv.restorer.begin(ctx, c, in.Job)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if out, err = pv.proveAt(ctx, c, in); err != nil {
		return nil, err
	}
	_, err = snap.Restore(ctx, pv.task.backupRef(c))
	return out, err
}

func (pv *prover) proveAt(ctx context.Context, c flow.Call, in proveIn) ([]Judged, error) {
	var out []Judged
	for _, cr := range in.Criteria {
		j := Judged{Criterion: cr}
		if cr.Verify != "" {
			res, err := pv.commands.run(ctx, c, sandbox.Verify, cr.ID, in.Job.Worktree, cr.Verify, in.Job.Limits.Command)
			if err != nil {
				return nil, err
			}
			j.Verdict, j.Proven = "met", res.Code == 0
			if res.Code != 0 {
				j.Verdict = "unmet"
			}
			j.Evidence = fmt.Sprintf("`%s` ended with %d", cr.Verify, res.Code)
			if res.Code != 0 && res.Tail != "" {
				j.Evidence += ": " + res.Tail
			}
			j.Evidence = cut(j.Evidence, evidenceSize(len(in.Criteria)))
		}
		out = append(out, j)
	}
	return out, nil
}

// ground names the criteria that nothing but a claim says are met. What a command proved has to hold in a fresh
// checkout too. Evidence counts when it names a line of a file that is there; and as long as no criterion at all
// was proven by a command, none does.
func (pv *prover) ground(ctx context.Context, c flow.Call, in proveIn) (bare []string, err error) {
	held, err := pv.proveFresh(ctx, c, in)
	if err != nil {
		return nil, err
	}
	proven := slices.ContainsFunc(held, func(j Judged) bool { return j.Proven && !j.Should })
	for _, j := range held {
		if !j.Should && !j.Proven && !(proven && namesLine(in.Job.Worktree, j.Evidence)) {
			bare = append(bare, j.ID)
		}
	}
	return bare, nil
}

// proveFresh takes back what commands proved in the worktree and don't prove in a fresh checkout of its commit.
func (pv *prover) proveFresh(ctx context.Context, c flow.Call, in proveIn) (held []Judged, err error) {
	if in.Job.InPlace || !slices.ContainsFunc(in.Judged, func(j Judged) bool { return j.Proven }) {
		return in.Judged, nil
	}
	err = pv.fresh.do(ctx, c, in.Job, func(fresh Job, broken *Check) error {
		for _, j := range in.Judged {
			if j.Proven && broken == nil {
				again, err := pv.proveAt(ctx, c, proveIn{Job: fresh, Criteria: []Criterion{j.Criterion}})
				if err != nil {
					return err
				}
				j.Proven = again[0].Proven
			}
			j.Proven = j.Proven && broken == nil
			held = append(held, j)
		}
		return nil
	})
	return held, err
}

// maxQuoted is how large a file can be that a line of it is named.
const maxQuoted = 16 << 20

// namesLine reports whether a text names a line, path:number, that is there.
func namesLine(root, evidence string) bool {
	for _, w := range strings.Fields(evidence) {
		path, rest, ok := strings.Cut(strings.Trim(w, "`*_,;()[]\"'."), ":")
		number, _, _ := strings.Cut(rest, ":")
		line, err := strconv.Atoi(number)
		if !ok || err != nil || line < 1 || !filepath.IsLocal(filepath.FromSlash(path)) {
			continue
		}
		data, err := durable.ReadBelow(root, path, maxQuoted)
		if err == nil && line <= strings.Count(string(data), "\n")+1 {
			return true
		}
	}
	return false
}
