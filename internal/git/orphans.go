package git

import "github.com/trellis-tasks/trellis/internal/proc"

// owned is what the commands of git carry in their environment, with all that they start, that the process p runs.
func owned(p proc.ID) string { return proc.MarkerVar + "=" + ownedBy + p.String() }

const ownedBy = "git-"

// EndOrphans ends what is left of the commands of git of a process that is gone. Killed together with its guard, it left
// them to go on with the repository, while somebody else takes its work up. Those that stay alive are returned.
func EndOrphans(p proc.ID) []int {
	if p.PID == 0 || p.Alive() {
		return nil
	}
	return proc.Sweep(ownedBy + p.String())
}
