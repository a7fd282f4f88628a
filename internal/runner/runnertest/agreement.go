package runnertest

func (w *World) Approve(dir, by string) {
	w.Helper()
	if _, err := w.Site.Approvals().Approve(dir, by, ""); err != nil {
		w.Fatal(err)
	}
}
