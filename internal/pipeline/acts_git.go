package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Coded are activities in which what git can't do, or a worktree that is not as it has to be, is a failure with a code,
// and with all that git said.
func Coded(list []flow.Activity) []flow.Activity {
	for i, act := range list {
		code := trellis.WorktreeFailed
		switch act.Name {
		case string(commit):
			code = trellis.CommitFailed
		case string(deliver):
			code = trellis.PushFailed
		}
		list[i].Run = func(ctx context.Context, c flow.Call, input json.RawMessage) (any, error) {
			out, err := act.Run(ctx, c, input)
			if err == nil || ctx.Err() != nil || errors.As(err, new(*flow.Failure)) || !git.Failed(err) && !errors.Is(err, proc.ErrNoFolder) {
				return out, err
			}
			return out, flow.Fail(string(code), "%v%s", err, where(err))
		}
	}
	return list
}

// where is the checkout in which a git command failed, which git itself seldom says.
func where(err error) string {
	var e *git.Error
	if !errors.As(err, &e) || e.Dir == "" || strings.Contains(err.Error(), e.Dir) {
		return ""
	}
	return " (in " + e.Dir + ")"
}
