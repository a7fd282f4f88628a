package proc

// Owned is what short-lived commands of the process p carry in their environment, with all that they start: those of git.
func Owned(p ID) string { return MarkerVar + "=" + ownedBy + p.String() }

const ownedBy = "git-"

// EndOwned ends what is left of the commands of a process that is gone. Killed together with its guard, it left
// them to go on with the repository, while somebody else takes its work up. Those that stay alive are returned.
func EndOwned(p ID) []int {
	if p.PID == 0 || p.Alive() {
		return nil
	}
	return Sweep(ownedBy + p.String())
}
