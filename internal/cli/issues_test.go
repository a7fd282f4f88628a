package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// issues starts a tracker for the rest of a script, and sets $ISSUES to its address. It answers with the files of a folder, which are named
// after method and path with _ for / and %, and refuses requests without this header.
func issues(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: issues FOLDER HEADER VALUE")
	}
	dir, name, value := ts.MkAbs(args[0]), args[1], args[2]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get(name) != value {
			http.Error(w, `{"message": "401 Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		word := strings.Map(func(c rune) rune {
			if strings.ContainsRune("/%", c) {
				return '_'
			}
			return c
		}, r.Method+r.URL.EscapedPath())
		data, err := os.ReadFile(filepath.Join(dir, word))
		if err != nil {
			http.Error(w, `{"message": "404 Not Found"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	}))
	ts.Defer(s.Close)
	ts.Setenv("ISSUES", s.URL)
}
