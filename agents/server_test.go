package agents

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// An answer that is cut off is a failure of the connection over HTTP/2 too, whose errors have other types.
func TestCutAnswer(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s", r.Proto)
		}
		io.WriteString(w, "data: {}\n\ndata: {") //nolint:errcheck
		http.NewResponseController(w).Flush()    //nolint:errcheck
		panic(http.ErrAbortHandler)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	events := 0
	err := (&server{client: s.Client(), onReceive: func() {}, log: io.Discard}).withEndpoint(s.URL, "x", http.Header{}).ask(t.Context(), nil, func([]byte) (bool, error) {
		events++
		return false, nil
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !isNetworkError(err) || events != 1 {
		t.Errorf("got %v after %d events", err, events)
	}
}
