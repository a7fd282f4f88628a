package agents

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// acpPermits reports whether a tool call of the given kind is allowed when the program asks:
//
//	none  nothing
//	read  reading, searching, thinking
//	edit  also editing, moving, deleting, the shell and what has no kind; nothing from the web, and no other mode, in which it
//	      would not ask
//	full  everything
//
// In read and edit, calls that name a path outside of the working directory are refused; the shell is not confined to it. Nothing
// here prevents what a program does without asking: that is the job of the sandbox.
func acpPermits(p trellis.Permission, kind string) bool {
	switch p {
	case trellis.PermitFull:
		return true
	case trellis.PermitEdit:
		return kind != "fetch" && kind != "switch_mode"
	case trellis.PermitRead:
		return kind == "read" || kind == "search" || kind == "think"
	}
	return false
}

// answerPermission answers a permission request. It chooses an option by its kind, regardless of names and order. "Allow always" is
// chosen only where everything is allowed, because nothing is asked after it.
func (c *acp) answerPermission(m *jsonrpc.Request, t *tally) {
	var asked acpPermission
	decode(string(m.Params), &asked)
	call := c.recordTool(asked.Call.acpToolCall, asked.Call.Content, t)
	if c.decodeOnly {
		return
	}
	allowed := acpPermits(c.r.Permission, call.ToolKind) && (c.r.Permission == trellis.PermitFull || c.inside(call))
	kinds := []string{"reject_once", "reject_always"}
	if allowed {
		kinds = slices.Insert(kinds, 0, "allow_once")
	}
	if allowed && c.r.Permission == trellis.PermitFull {
		kinds = slices.Insert(kinds, 1, "allow_always")
	}
	var answer acpOutcome
	what := text.Cut(text.OneLine(strings.TrimSpace(call.ToolKind+" "+call.Title)), maxQuotedRequest)
	option, found := acpChoose(asked.Options, kinds)
	switch {
	case c.stopped:
		answer.Outcome.Outcome = "cancelled"
	case !found:
		answer.Outcome.Outcome = "cancelled" // as the protocol requires when the turn ends
		f := refusedRequest("the agent asks whether it may " + what + ", which it may not, and takes no refusal")
		if allowed {
			f = refusedRequest("the agent asks whether it may " + what + ", and takes neither that it may this once nor a refusal")
		}
		defer t.watchdog.end(f)
	default:
		answer.Outcome.Outcome, answer.Outcome.Option = "selected", option.ID
		if !strings.HasPrefix(option.Kind, "allow") {
			t.notice("refused: " + what)
		}
	}
	c.send(&jsonrpc.Response{ID: m.ID, Result: acpJSON(answer)})
}

// acpChoose returns the first option of the first kind in kinds that is offered.
func acpChoose(options []acpOption, kinds []string) (acpOption, bool) {
	for _, kind := range kinds {
		if at := slices.IndexFunc(options, func(o acpOption) bool { return o.Kind == kind }); at >= 0 {
			return options[at], true
		}
	}
	return acpOption{}, false
}

// addPaths adds the paths that a tool call, or an update of one, names: in locations, diffs and input. Paths are never removed,
// so that a later permission request can't hide a path reported before.
func (k *acpTool) addPaths(call acpToolCall, content json.RawMessage) {
	var pieces []acpContent
	json.Unmarshal(content, &pieces) //nolint:errcheck // content that is not a list names no path
	for _, l := range call.Locations {
		k.paths = append(k.paths, l.Path)
	}
	for _, p := range pieces {
		k.paths = append(k.paths, p.Path)
	}
	var input map[string]any
	json.Unmarshal(call.Input, &input) //nolint:errcheck // input that is not an object names no path
	for key, value := range input {
		if !slices.Contains(acpPathKeys, strings.ToLower(strings.ReplaceAll(key, "_", ""))) {
			continue
		}
		list, is := value.([]any)
		if !is {
			list = []any{value}
		}
		for _, one := range list {
			if path, is := one.(string); is {
				k.paths = append(k.paths, path)
			}
		}
	}
	slices.Sort(k.paths)
	k.paths = slices.Compact(k.paths)
}

// acpPathKeys are the names that programs use for paths in tool input, in lower case without underscores.
var acpPathKeys = []string{"path", "paths", "file", "files", "filepath", "filename", "absolutepath", "targetfile", "uri", "uris", "dir", "dirpath", "directory", "oldpath", "newpath"}

// inside reports whether all paths that a call named so far are in the working directory.
func (c *acp) inside(call *acpTool) bool {
	dir := realPath(c.r.Dir)
	outside := func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.r.Dir, path)
		}
		below, err := filepath.Rel(dir, realPath(path))
		return err != nil || !filepath.IsLocal(below)
	}
	return !slices.ContainsFunc(call.paths, func(path string) bool {
		may, known := possiblePaths(path)
		return !known || slices.ContainsFunc(may, outside)
	})
}

// possiblePaths returns the paths that a tool may take text for, which may be a file URL. known is false if text leads to a home
// folder or to another machine.
func possiblePaths(text string) (paths []string, known bool) {
	scheme, rest, isAddress := strings.Cut(text, ":")
	switch {
	case text == "":
		return nil, true
	case !isAddress || !strings.EqualFold(scheme, "file"):
		return []string{text}, !strings.HasPrefix(text, "~")
	}
	u, err := url.Parse(text)
	if err != nil || u.Path == "" || u.Host != "" && u.Host != "localhost" {
		return nil, false
	}
	return []string{u.Path, strings.TrimPrefix(rest, "//"+u.Host)}, true // as a URL parser reads it, and as a program that strips the scheme does
}

// realPath resolves the symbolic links in path. If path does not exist, it resolves those of the nearest existing parent.
func realPath(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(realPath(up), filepath.Base(path))
	}
	return path
}
