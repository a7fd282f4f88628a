package board

import (
	"context"
	"net/http"
)

// stats is the page of numbers.
func (s *Server) stats(context.Context, *http.Request) (string, error) {
	return render("stats", page{Reads: s.o.ReadOnly})
}
