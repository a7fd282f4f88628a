package board

import (
	"bytes"
	"net/http"

	"github.com/trellis-tasks/trellis/internal/metrics"
)

// metrics serves the numbers of all tasks to a scraper.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	var text bytes.Buffer
	if err := s.collector.Write(&text); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_, _ = text.WriteTo(w) // an error means that the scraper is gone
}
