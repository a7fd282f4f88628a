package board

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// newPlan returns the page on which a person writes a requirement.
func (s *Server) newPlan(context.Context, *http.Request) (string, error) {
	cfg, _ := s.p.Config() // settings that can't be read have no packages
	return render("plan", page{Data: map[string]any{"Types": trellis.DevTypes, "Packages": slices.Sorted(maps.Keys(cfg.Packages))}, Reads: s.o.ReadOnly})
}

// plan begins a planning, as trellis plan does. It goes on when this server ends.
func (s *Server) plan(ctx context.Context, r *http.Request) (string, error) {
	if err := r.ParseForm(); err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	s.orderLock.Lock()
	defer s.orderLock.Unlock()
	a, err := programAnswer(s.program().Plan(context.WithoutCancel(ctx), app.Planning{Requirement: r.PostFormValue("requirement"), Name: r.PostFormValue("name"),
		Type: r.PostFormValue("type"), Priority: r.PostFormValue("priority"), Package: r.PostFormValue("package")}))
	if err != nil {
		return "", err
	}
	return render("said", a)
}
