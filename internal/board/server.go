package board

import (
	"context"
	"crypto/rand"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/metrics"
	"github.com/trellis-tasks/trellis/internal/stats"
)

// Server serves the board to browsers.
type Server struct {
	http.Handler
	p           *app.Project
	o           Options
	name        string // of the repository
	runID       string // differs for each run of this server
	tasks       *tasks
	logs        logs
	statsReader *stats.Reader
	collector   *metrics.Collector
	orderLock   sync.Mutex // one order at a time

	viewsLock sync.Mutex
	views     map[string]sharedView // pages of columns, by query

	openStreams chan struct{} // holds one entry for each open stream
	cancel      context.CancelFunc
	followers   sync.WaitGroup
}

// maxStreams is how many tabs may listen at the same time.
const maxStreams = 256

// New returns a server for browsers that call it by one of these hosts. It follows what happens in
// the project until ctx is done or the server is closed.
func New(ctx context.Context, p *app.Project, o Options, hosts []string) (*Server, error) {
	o.Now = orNow(o.Now)
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{p: p, o: o, name: filepath.Base(p.Root), runID: rand.Text()[:8], cancel: cancel, openStreams: make(chan struct{}, maxStreams), views: map[string]sharedView{}}
	s.logs.p, s.statsReader, s.collector = p, p.Stats(), app.Metrics(p, o.Version)
	s.tasks = newTasks(p)
	feed, err := p.Events(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	s.followers.Go(func() { s.tasks.follow(ctx, feed) })
	s.Handler = newGuard(hosts, o.Key, o.ReadOnly, o.Now, s.routes())
	return s, nil
}

// Close ends the streams, and waits until nothing is followed any more. It may be called again.
func (s *Server) Close() {
	s.cancel()
	s.tasks.close()
	s.followers.Wait()
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// routes returns all handlers: of pages without data, of the files that they use, and below data of everything about tasks.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", assets())
	mux.HandleFunc("GET /static/plot.css", plotStyle)
	for _, page := range []string{"/{$}", "/task/{id}", "/task/{id}/{tab}", "/task/{id}/files/{name...}", "/plan", "/objectives", "/stats"} {
		mux.HandleFunc("GET "+page, s.shell)
	}
	mux.HandleFunc("GET /v/{$}", s.answer(s.columns))
	mux.HandleFunc("GET /v/task/{id}", s.answer(s.task))
	mux.HandleFunc("GET /v/task/{id}/{tab}", s.answer(s.task))
	mux.HandleFunc("GET /v/task/{id}/files/{name...}", s.answer(s.file))
	mux.HandleFunc("GET /v/plan", s.answer(s.newPlan))
	mux.HandleFunc("GET /v/objectives", s.answer(s.objectives))
	mux.HandleFunc("GET /v/stats", s.answer(s.stats))
	mux.HandleFunc("GET /v/stream", s.stream)
	mux.HandleFunc("GET "+metricsPath, s.metrics)
	mux.HandleFunc("POST /v/task/{id}/files/{name...}", s.answer(s.save))
	mux.HandleFunc("POST /v/do/{order}/{id}", s.answer(s.giveOrder))
	mux.HandleFunc("POST /v/plan", s.answer(s.plan))
	return mux
}
