package journal

import "errors"

// Begin begins a run in the folder without executing it, even if the existing journal is damaged.
func Begin(o Options, s Spec) error {
	r, err := lockRun(o)
	if err != nil {
		return err
	}
	return errors.Join(r.Begin(s), r.Close())
}
