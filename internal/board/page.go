package board

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

//go:embed pages/*.html
var pages embed.FS

//go:embed static
var static embed.FS

// templates are parsed when the first page is requested, so that other commands don't pay for it.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("board").Funcs(template.FuncMap{
		"elem": elementID, "count": text.Count, "tokens": text.Tokens, "seconds": text.Seconds, "visible": trellis.Visible, "prose": renderSentence, "markdown": markdown,
		"number": func(n int, says bool) lineNumber { return lineNumber{n, says && n > 0} }, "join": strings.Join, "word": statusWord, "icon": statusIcon, "add": func(a, b int) int { return a + b },
		"list": func(all ...string) []string { return all }, "pair": func(name string, items []string) namedList { return namedList{name, items} },
	}).ParseFS(pages, "pages/*.html"))
})

// renderSentence renders a sentence of Trellis, with text between backticks as code. A text with an odd backtick stays as it is.
func renderSentence(s string) template.HTML {
	parts := strings.Split(template.HTMLEscapeString(trellis.Visible(s)), "`")
	if len(parts)%2 == 0 {
		return template.HTML(strings.Join(parts, "`"))
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<code>" + parts[i] + "</code>"
	}
	return template.HTML(strings.Join(parts, ""))
}

// namedList is a list with its heading.
type namedList struct {
	Name  string
	Items []string
}

// lineNumber is the number of a line of a diff; Says: a person may comment on the line.
type lineNumber struct {
	N    int
	Says bool
}

// elementID returns the id of a task's HTML element, which is valid whatever its directory is called.
func elementID(id string) string {
	h := fnv.New64a()
	h.Write([]byte(id))
	return fmt.Sprintf("t%x", h.Sum64())
}

// render executes a template with data.
func render(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("rendering %s: %w", name, err)
	}
	return b.String(), nil
}

// assets serves the files that pages use. They are the same for everybody.
func assets() http.Handler {
	files := http.FileServerFS(static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", version())
		files.ServeHTTP(w, r)
	})
}

// version returns an ETag that changes when any of the files does.
var version = sync.OnceValue(func() string {
	h := fnv.New64a()
	entries, err := static.ReadDir("static")
	for _, e := range entries {
		data, readErr := static.ReadFile("static/" + e.Name())
		err = errors.Join(err, readErr)
		h.Write(data)
	}
	if err != nil {
		panic(err) // they are part of the program
	}
	return fmt.Sprintf(`"%x"`, h.Sum64())
})

// shell serves the page that anybody gets: it holds no data, and requests it with the key that it has.
func (s *Server) shell(w http.ResponseWriter, r *http.Request) {
	page, err := render("shell", nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	fmt.Fprint(w, page)
}

// answer returns a handler that serves what do returns, or its error.
func (s *Server) answer(do func(context.Context, *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := do(r.Context(), r)
		code := http.StatusOK
		if err != nil {
			if code = httpStatus(err); body == "" {
				body, err = render("error", errorPage{Why: err.Error(), Next: app.HintsOf(err)})
			}
		}
		if body == "" {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// errorPage is an error as a page shows it.
type errorPage struct {
	Why  string
	Next []string
}

// httpStatus returns the HTTP status for an error.
func httpStatus(err error) int {
	switch kind := app.KindOf(err); {
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge
	case kind == app.ErrNotFound:
		return http.StatusNotFound
	case kind == app.ErrUsage:
		return http.StatusBadRequest
	case kind == app.ErrFailed:
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}
