package pipeline

import "slices"

// Outside are the paths of a worktree that are never committed, whatever git thinks of them.
func Outside(j Job) []string { return append(slices.Clone(taskState), j.Setup.Copy...) }
