package tracker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// token is the one that every fake accepts.
const token = "tok-3n_5.secret"

// board is the content of a fake tracker, and how the tracker fails.
type board struct {
	*testing.T
	*httptest.Server

	mu       sync.Mutex
	title    string
	body     string
	labels   []string
	native   string          // P0 to P3, "" for none
	blockers map[string]bool // names, and whether they are done
	comments []Comment
	busy     int           // number of requests that are refused first, with a request to wait
	pause    time.Duration // wait that Linear asks for when it is busy
	lost     bool          // the answer to the next comment that is written gets lost
	asked    []string
}

// kind is one tracker: its fake, which is as strict as the real one, and how Trellis calls it.
type kind struct {
	key, other string // of its issue, and of an issue that does not exist
	blocker    string
	open       func(base, token string) Tracker
	serve      func(b *board, w http.ResponseWriter, r *http.Request)
	unsigned   []func(http.Header) // headers that the real tracker does not accept
}

func header(name, value string) func(http.Header) {
	return func(h http.Header) { h.Set(name, value) }
}

var kinds = map[string]kind{
	"linear": {"ABC-12", "ABC-99", "ABC-9", func(base, token string) Tracker { return newLinear(base, token) }, serveLinear, []func(http.Header){header("Authorization", "Bearer "+token)}},
	"jira cloud": {"SHOP-3", "SHOP-99", "SHOP-2", func(base, token string) Tracker { return newJira(base, "ada@example.org", token) }, serveJira(true),
		[]func(http.Header){header("Authorization", "Bearer "+token), header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(token)))}},
	"jira data center": {"SHOP-3", "SHOP-99", "SHOP-2", func(base, token string) Tracker { return newJira(base, "", token) }, serveJira(false), []func(http.Header){header("Authorization", token)}},
	"gitlab":           {"group/sub/shop#4", "group/sub/shop#99", "group/sub/shop#2", func(base, token string) Tracker { return &gitlab{gitlabServer(base, token)} }, serveGitLab, []func(http.Header){header("Authorization", token)}},
	"github":           {"acme/shop#7", "acme/shop#99", "acme/shop#2", func(base, token string) Tracker { return newGitHub(base, token) }, serveGitHub, []func(http.Header){header("Authorization", token)}},
}

func newBoard(t *testing.T, k kind) *board {
	b := &board{T: t, title: "Take limit and offset", body: "Line one\n\nline two"}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked = append(b.asked, r.Method+" "+r.URL.EscapedPath())
		if b.busy > 0 {
			b.busy--
			if k.key == "ABC-12" { // as Linear itself answers
				now := time.Now()
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
				w.Header().Set("X-RateLimit-Requests-Remaining", "0")
				w.Header().Set("X-RateLimit-Requests-Reset", strconv.FormatInt(now.Add(b.pause).UnixMilli(), 10))
				w.Header().Set("X-RateLimit-Complexity-Remaining", "90")
				w.Header().Set("X-RateLimit-Complexity-Reset", strconv.FormatInt(now.Add(5*time.Hour).UnixMilli(), 10))
				answer(w, http.StatusBadRequest, map[string]any{"errors": []any{map[string]any{"message": "Rate limit exceeded", "extensions": map[string]any{"code": "RATELIMITED"}}}})
				return
			}
			w.Header().Set("Retry-After", "0")
			answer(w, http.StatusTooManyRequests, map[string]any{"message": "slow down"})
			return
		}
		k.serve(b, w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// wrote keeps a comment, and loses the answer if b.lost is set.
func (b *board) wrote(w http.ResponseWriter, status int, text string, v any) {
	b.comments = append(b.comments, Comment{"trellis", text, fmt.Sprintf("2026-02-01T00:00:%02dZ", len(b.comments)%60)})
	if b.lost {
		b.lost = false
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.Close()
		}
		return
	}
	answer(w, status, v)
}

func (b *board) read(r *http.Request, v any) bool {
	data, err := io.ReadAll(r.Body)
	return err == nil && r.Header.Get("Content-Type") == "application/json" && json.Unmarshal(data, v) == nil
}

// page returns at most size comments, from the index from on.
func (b *board) page(from, size int) []Comment {
	from = min(from, len(b.comments))
	return b.comments[from:min(from+size, len(b.comments))]
}

func serveLinear(b *board, w http.ResponseWriter, r *http.Request) {
	fail := func(status int, message, code string) {
		answer(w, status, map[string]any{"data": nil, "errors": []any{map[string]any{"message": message, "extensions": map[string]any{"code": code}}}})
	}
	var in struct {
		Query     string
		Variables map[string]any
	}
	switch {
	case r.URL.Path != "/graphql" || r.Method != http.MethodPost:
		http.NotFound(w, r)
		return
	case r.Header.Get("Authorization") != token:
		fail(http.StatusUnauthorized, "It looks like you're trying to use an API key as a Bearer token. Remove the Bearer prefix from the Authorization header.", "AUTHENTICATION_ERROR")
		return
	case !b.read(r, &in):
		fail(http.StatusBadRequest, "no JSON", "BAD_USER_INPUT")
		return
	}
	if strings.HasPrefix(in.Query, "mutation") {
		input, _ := in.Variables["input"].(map[string]any)
		if input["issueId"] != "uuid-12" { // an issue is not found here by its identifier
			fail(http.StatusOK, "Entity not found: Issue", "INPUT_ERROR")
			return
		}
		b.wrote(w, http.StatusOK, input["body"].(string), map[string]any{"data": map[string]any{"commentCreate": map[string]any{"success": true}}})
		return
	}
	if in.Variables["id"] != "ABC-12" {
		fail(http.StatusOK, "Entity not found: Issue", "INPUT_ERROR")
		return
	}
	issue := map[string]any{"id": "uuid-12", "identifier": "ABC-12", "title": b.title, "description": b.body, "url": "https://linear.app/acme/issue/ABC-12", "priority": 0, "state": map[string]any{"name": "In Progress"}, "creator": map[string]any{"name": "ada"}}
	if b.native != "" {
		issue["priority"] = int(b.native[1]-'0') + 1
	}
	labels, relations := []any{}, []any{map[string]any{"type": "related", "issue": map[string]any{"identifier": "ABC-1", "state": map[string]any{"type": "started"}}}}
	for _, l := range b.labels {
		labels = append(labels, map[string]any{"name": l})
	}
	for name, done := range b.blockers {
		relations = append(relations, map[string]any{"type": "blocks", "issue": map[string]any{"identifier": name, "state": map[string]any{"type": map[bool]string{true: "completed", false: "started"}[done]}}})
	}
	issue["labels"], issue["inverseRelations"] = map[string]any{"nodes": labels}, map[string]any{"nodes": relations}
	if size, is := in.Variables["first"].(float64); is {
		from := 0
		if after, is := in.Variables["after"].(string); is {
			from, _ = strconv.Atoi(after)
		}
		nodes := []any{}
		for _, c := range b.page(from, int(size)) {
			nodes = append(nodes, map[string]any{"body": c.Body, "createdAt": c.At, "user": map[string]any{"name": c.Author}})
		}
		end := from + len(nodes)
		issue["comments"] = map[string]any{"nodes": nodes, "pageInfo": map[string]any{"hasNextPage": end < len(b.comments), "endCursor": strconv.Itoa(end)}}
	}
	answer(w, http.StatusOK, map[string]any{"data": map[string]any{"issue": issue}})
}

func serveJira(cloud bool) func(b *board, w http.ResponseWriter, r *http.Request) {
	api, auth := "/rest/api/2", "Bearer "+token
	if cloud {
		api, auth = "/rest/api/3", "Basic "+base64.StdEncoding.EncodeToString([]byte("ada@example.org:"+token))
	}
	text := func(s string) any {
		if cloud {
			return toDocument(s)
		}
		return s
	}
	return func(b *board, w http.ResponseWriter, r *http.Request) {
		fail := func(status int, message string) {
			answer(w, status, map[string]any{"errorMessages": []string{message}, "errors": map[string]any{}})
		}
		if r.Header.Get("Authorization") != auth {
			fail(http.StatusUnauthorized, "You do not have the permission to see the specified issue.")
			return
		}
		rest, is := strings.CutPrefix(r.URL.Path, api+"/issue/SHOP-3")
		if !is {
			fail(http.StatusNotFound, "Issue does not exist or you do not have permission to see it.")
			return
		}
		switch {
		case rest == "" && r.Method == http.MethodGet:
			fields := map[string]any{"summary": b.title, "description": text(b.body), "labels": b.labels, "priority": nil, "status": map[string]any{"name": "In Progress"}, "reporter": map[string]any{"displayName": "ada"}}
			if b.native != "" {
				fields["priority"] = map[string]any{"name": []string{"Highest", "High", "Medium", "Low"}[b.native[1]-'0']}
			}
			links := []any{map[string]any{"type": map[string]any{"inward": "is blocked by", "outward": "blocks"}, "outwardIssue": map[string]any{"key": "SHOP-8"}},
				map[string]any{"type": map[string]any{"inward": "relates to"}, "inwardIssue": map[string]any{"key": "SHOP-1"}}}
			for name, done := range b.blockers {
				links = append(links, map[string]any{"type": map[string]any{"inward": "is blocked by"}, "inwardIssue": map[string]any{"key": name, "fields": map[string]any{"status": map[string]any{"statusCategory": map[string]any{"key": map[bool]string{true: "done", false: "new"}[done]}}}}})
			}
			fields["issuelinks"] = links
			for name := range fields {
				if !strings.Contains(r.URL.Query().Get("fields"), name) {
					delete(fields, name)
				}
			}
			answer(w, http.StatusOK, map[string]any{"key": "SHOP-3", "fields": fields})
		case rest == "/comment" && r.Method == http.MethodGet:
			from, _ := strconv.Atoi(r.URL.Query().Get("startAt"))
			size, _ := strconv.Atoi(r.URL.Query().Get("maxResults"))
			list := []any{}
			for _, c := range b.page(from, min(size, 50)) { // Jira may return fewer than requested
				list = append(list, map[string]any{"author": map[string]any{"displayName": c.Author}, "body": text(c.Body), "created": c.At})
			}
			answer(w, http.StatusOK, map[string]any{"startAt": from, "total": len(b.comments), "comments": list})
		case rest == "/comment" && r.Method == http.MethodPost:
			var in struct{ Body json.RawMessage }
			var doc struct {
				Type    string
				Version int
			}
			var plain string
			if !b.read(r, &in) || cloud && (json.Unmarshal(in.Body, &doc) != nil || doc.Type != "doc" || doc.Version != 1) || !cloud && json.Unmarshal(in.Body, &plain) != nil {
				fail(http.StatusBadRequest, "Comment body is not valid!")
				return
			}
			b.wrote(w, http.StatusCreated, toMarkdown(in.Body), map[string]any{"id": "1"})
		default:
			fail(http.StatusNotFound, "no such thing")
		}
	}
}

func serveGitLab(b *board, w http.ResponseWriter, r *http.Request) {
	fail := func(status int, message string) { answer(w, status, map[string]any{"message": message}) }
	if r.Header.Get("PRIVATE-TOKEN") != token {
		fail(http.StatusUnauthorized, "401 Unauthorized")
		return
	}
	rest, is := strings.CutPrefix(r.URL.EscapedPath(), "/api/v4/projects/group%2Fsub%2Fshop/issues/4")
	if !is {
		fail(http.StatusNotFound, "404 Not found")
		return
	}
	ref := func(name string) map[string]any { return map[string]any{"full": name} }
	switch {
	case rest == "" && r.Method == http.MethodGet:
		labels := b.labels
		if b.native != "" {
			labels = append([]string{"priority::" + []string{"urgent", "high", "medium", "low"}[b.native[1]-'0']}, labels...)
		}
		answer(w, http.StatusOK, map[string]any{"iid": 4, "title": b.title, "description": b.body, "state": "opened", "author": map[string]any{"name": "ada"}, "labels": labels, "web_url": "https://gitlab.com/group/sub/shop/-/issues/4"})
	case rest == "/links" && r.Method == http.MethodGet:
		links := []any{map[string]any{"link_type": "relates_to", "state": "opened", "references": ref("group/sub/shop#1")}, map[string]any{"link_type": "blocks", "state": "opened", "references": ref("group/sub/shop#8")}}
		for name, done := range b.blockers {
			links = append(links, map[string]any{"link_type": "is_blocked_by", "state": map[bool]string{true: "closed", false: "opened"}[done], "references": ref(name)})
		}
		answer(w, http.StatusOK, links)
	case rest == "/notes" && r.Method == http.MethodGet:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		list := []any{map[string]any{"body": "changed the description", "system": true, "created_at": "2026-01-01T00:00:00Z", "author": map[string]any{"name": "bot"}}}
		for _, c := range b.page((page-1)*size, size) {
			list = append(list, map[string]any{"body": c.Body, "system": false, "created_at": c.At, "author": map[string]any{"name": c.Author}})
		}
		if page*size < len(b.comments) {
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		}
		answer(w, http.StatusOK, list)
	case rest == "/notes" && r.Method == http.MethodPost:
		var in struct{ Body string }
		if !b.read(r, &in) || in.Body == "" {
			fail(http.StatusBadRequest, "body is missing")
			return
		}
		b.wrote(w, http.StatusCreated, in.Body, map[string]any{"id": 1})
	default:
		fail(http.StatusNotFound, "404 Not found")
	}
}

func serveGitHub(b *board, w http.ResponseWriter, r *http.Request) {
	fail := func(status int, message string) { answer(w, status, map[string]any{"message": message}) }
	if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("User-Agent") == "" {
		fail(http.StatusUnauthorized, "Bad credentials")
		return
	}
	rest, is := strings.CutPrefix(r.URL.Path, "/repos/acme/shop/issues/7")
	if !is {
		fail(http.StatusNotFound, "Not Found")
		return
	}
	switch {
	case rest == "" && r.Method == http.MethodGet:
		labels := []any{}
		for _, l := range b.labels {
			labels = append(labels, map[string]any{"name": l})
		}
		if b.native != "" {
			labels = append(labels, map[string]any{"name": b.native})
		}
		answer(w, http.StatusOK, map[string]any{"number": 7, "title": b.title, "body": b.body, "state": "open", "user": map[string]any{"login": "ada"}, "labels": labels, "html_url": "https://github.com/acme/shop/issues/7"})
	case rest == "/dependencies/blocked_by" && r.Method == http.MethodGet:
		list := []any{}
		for name, done := range b.blockers {
			repo, number, _ := strings.Cut(name, "#")
			n, _ := strconv.Atoi(number)
			list = append(list, map[string]any{"number": n, "state": map[bool]string{true: "closed", false: "open"}[done], "repository": map[string]any{"full_name": repo}})
		}
		answer(w, http.StatusOK, list)
	case rest == "/comments" && r.Method == http.MethodGet:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		list := []any{}
		for _, c := range b.page((page-1)*size, size) {
			list = append(list, map[string]any{"body": c.Body, "created_at": c.At, "user": map[string]any{"login": c.Author}})
		}
		answer(w, http.StatusOK, list)
	case rest == "/comments" && r.Method == http.MethodPost:
		var in struct{ Body string }
		if !b.read(r, &in) || in.Body == "" {
			fail(http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
		b.wrote(w, http.StatusCreated, in.Body, map[string]any{"id": 1})
	default:
		fail(http.StatusNotFound, "Not Found")
	}
}
