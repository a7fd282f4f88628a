package journal

import "errors"

// Begin begins a run in the folder without executing it, also over a journal that is damaged.
func Begin(o Options, s Spec) error {
	r, err := lockRun(o)
	if err != nil {
		return err
	}
	return errors.Join(r.Begin(s), r.Close())
}
