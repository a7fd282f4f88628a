package board

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/stats/plot"
)

// statsPage is what tasks took since a time, as figures with their tables.
type statsPage struct {
	Since    string // as the person said it, "" for all time
	Periods  []period
	Figures  []plot.Figure
	Problems []string
}

// period is a choice of the time since which numbers count.
type period struct{ Since, Says string }

// stats returns the page of numbers.
func (s *Server) stats(_ context.Context, r *http.Request) (string, error) {
	p := statsPage{Since: r.URL.Query().Get("since"), Periods: []period{{"", "all time"}, {"90d", "90 days"}, {"30d", "30 days"}, {"7d", "7 days"}, {"24h", "a day"}}}
	var since time.Time
	if p.Since != "" {
		var err error
		if since, err = stats.ParseSince(p.Since, s.o.Now().In(s.statsReader.Zone)); err != nil {
			return "", app.AsKind(app.ErrUsage, err)
		}
	}
	record, err := s.statsReader.Read(since)
	if err != nil {
		return "", err
	}
	p.Problems = record.Problems
	if all := record.Table(stats.ByPhase).Total; all.Calls > 0 || all.CheckSeconds > 0 {
		p.Figures = plot.Figures(record)
	}
	return render("stats", page{Data: p, Reads: s.o.ReadOnly})
}

// plotStyle serves the style sheet of the figures.
func plotStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.WriteString(w, plot.Style) // an error means that the browser is gone
}
