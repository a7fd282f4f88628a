package proc

// OwnerVariable returns the variable that short-lived commands of the process p, those of git, have in their environment, with all that
// they start.
func OwnerVariable(p ID) string { return MarkerVar + "=" + ownerPrefix + p.String() }

const ownerPrefix = "git-"

// EndOwned ends the remaining commands of a process that is gone. If that was killed together with its guard, its commands go on
// with the repository while another process takes over its work. It returns those that stay alive.
func EndOwned(p ID) []int {
	if p.PID == 0 || p.Alive() {
		return nil
	}
	return Sweep(ownerPrefix + p.String())
}
