package runnertest

func (w *World) Approve(dir, by string) {
	w.Helper()
	if _, err := w.Site.Approve(dir, by); err != nil {
		w.Fatal(err)
	}
}
