package board

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// contentPolicy lets a page load what this server has, and run and send nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// dataPath is the path below which everything about tasks is served, and metricsPath the path of the metrics.
const (
	dataPath    = "/v/"
	metricsPath = "/metrics"
)

// needsKey reports whether a path is served only to those who have the key.
func needsKey(path string) bool { return strings.HasPrefix(path, dataPath) || path == metricsPath }

// maxForm is how much a browser may send, in bytes.
const maxForm = 4 << 20

// guard checks requests before they are served.
type guard struct {
	hosts       []string // names by which the board may be called
	key         [sha256.Size]byte
	readOnly    bool // the board is read-only
	crossOrigin *http.CrossOriginProtection
	wrongKeys   rateLimit
	next        http.Handler
}

func newGuard(hosts []string, key string, readOnly bool, now func() time.Time, next http.Handler) *guard {
	return &guard{hosts: hosts, key: sha256.Sum256([]byte(key)), readOnly: readOnly, crossOrigin: http.NewCrossOriginProtection(), wrongKeys: rateLimit{most: 20, per: time.Minute, now: now}, next: next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if code, why := g.refusal(r); code != 0 {
		http.Error(w, why, code)
		return
	}
	if needsKey(r.URL.Path) {
		h.Set("Cache-Control", "no-store")
		if code, why := g.keyRefusal(r); code != 0 {
			h.Set("WWW-Authenticate", "Bearer")
			http.Error(w, why, code)
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	g.next.ServeHTTP(w, r)
}

// refusal returns why a request is not for this board, whoever sends it; a code of 0 means that it is.
func (g *guard) refusal(r *http.Request) (code int, why string) {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case !slices.Contains(g.hosts, r.Host):
		return http.StatusMisdirectedRequest, "this board is not called " + r.Host
	case g.crossOrigin.Check(r) != nil, needsKey(r.URL.Path) && site != "" && site != "same-origin":
		return http.StatusForbidden, "another site asked for this"
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "the board takes only GET and POST"
	case g.readOnly && r.Method == http.MethodPost:
		return http.StatusForbidden, "this board is for reading: it was started with --read-only"
	}
	return 0, ""
}

// keyRefusal returns why a request lacks the key; a code of 0 means that it has it. Requests with the key are never limited.
func (g *guard) keyRefusal(r *http.Request) (code int, why string) {
	scheme, said, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110, section 11.1
		said = ""
	}
	sum := sha256.Sum256([]byte(said))
	switch {
	case subtle.ConstantTimeCompare(sum[:], g.key[:]) == 1:
		return 0, ""
	case !g.wrongKeys.allows():
		return http.StatusTooManyRequests, "too many wrong keys"
	}
	return http.StatusUnauthorized, "open the address that trellis board printed: it has the key"
}

// rateLimit allows something up to most times within per.
type rateLimit struct {
	most int
	per  time.Duration
	now  func() time.Time

	mu    sync.Mutex
	times []time.Time
}

func (l *rateLimit) allows() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.now()
	l.times = slices.DeleteFunc(l.times, func(t time.Time) bool { return at.Sub(t) >= l.per })
	if len(l.times) >= l.most {
		return false
	}
	l.times = append(l.times, at)
	return true
}
