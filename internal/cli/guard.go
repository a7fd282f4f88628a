package cli

// exitStatus is the exit code of a command that another process ran and reported on.
type exitStatus int

func (e exitStatus) Error() string { return "" }

// guarded runs work in a process of its own, so that someone is left to end what it started, however it
// ends. Within that process, and where there is nothing to guard with, it just runs.
func (a *console) guarded(work func() error) error {
	if a.Guard == nil {
		return work()
	}
	worker, code, err := a.Guard()
	switch {
	case err != nil:
		return err
	case worker:
		return work()
	}
	return exitStatus(code)
}
