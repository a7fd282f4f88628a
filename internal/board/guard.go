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

// policy lets a page load what this server has, and run and send nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// data is the path below which everything about tasks is served, and numbers the path of the metrics.
const (
	data    = "/v/"
	numbers = "/metrics"
)

// known reports whether a path is served only to those who have the key.
func known(path string) bool { return strings.HasPrefix(path, data) || path == numbers }

// maxForm is how much a browser may send, in bytes.
const maxForm = 4 << 20

// guard checks requests before they are served.
type guard struct {
	hosts []string // names by which the board may be called
	key   [sha256.Size]byte
	read  bool // the board is read-only
	cross *http.CrossOriginProtection
	wrong limit
	next  http.Handler
}

func newGuard(hosts []string, key string, readOnly bool, now func() time.Time, next http.Handler) *guard {
	return &guard{hosts: hosts, key: sha256.Sum256([]byte(key)), read: readOnly, cross: http.NewCrossOriginProtection(), wrong: limit{most: 20, per: time.Minute, now: now}, next: next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if code, why := g.refuses(r); code != 0 {
		http.Error(w, why, code)
		return
	}
	if known(r.URL.Path) {
		h.Set("Cache-Control", "no-store")
		if code, why := g.unknown(r); code != 0 {
			h.Set("WWW-Authenticate", "Bearer")
			http.Error(w, why, code)
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	g.next.ServeHTTP(w, r)
}

// refuses returns why a request is not for this board, whoever sends it; a code of 0 means that it is.
func (g *guard) refuses(r *http.Request) (code int, why string) {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case !slices.Contains(g.hosts, r.Host):
		return http.StatusMisdirectedRequest, "this board is not called " + r.Host
	case g.cross.Check(r) != nil, known(r.URL.Path) && site != "" && site != "same-origin":
		return http.StatusForbidden, "another site asked for this"
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "a board is read, and told by POST"
	case g.read && r.Method == http.MethodPost:
		return http.StatusForbidden, "this board is for reading: it was started with --read-only"
	}
	return 0, ""
}

// unknown returns why a request lacks the key; a code of 0 means that it has it. Requests with the key are never limited.
func (g *guard) unknown(r *http.Request) (code int, why string) {
	scheme, said, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110, section 11.1
		said = ""
	}
	sum := sha256.Sum256([]byte(said))
	switch {
	case subtle.ConstantTimeCompare(sum[:], g.key[:]) == 1:
		return 0, ""
	case !g.wrong.allows():
		return http.StatusTooManyRequests, "too many wrong keys"
	}
	return http.StatusUnauthorized, "open the address that trellis board printed: it has the key"
}

// limit allows something up to most times within per.
type limit struct {
	most int
	per  time.Duration
	now  func() time.Time

	mu    sync.Mutex
	times []time.Time
}

func (l *limit) allows() bool {
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
