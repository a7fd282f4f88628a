package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// files is the part of a folder that a model may read: everything except .git, and no link that leads out of the folder. With the
// zero value nothing can be read. The number of calls and of bytes is limited.
type files struct {
	dir    string
	root   *os.Root
	lister func(ctx context.Context, dir string) ([]string, error) // lists the files; nil: the folder is walked
	names  []string                                                // sorted, set by the first call of all

	calls      int // calls so far
	bytesShown int // bytes returned to the model so far
}

const (
	maxCalls     = 100       // calls in one run
	maxRefused   = 5         // calls in a run without tools
	maxShown     = 768 << 10 // bytes shown in one run
	maxFile      = 8 << 20   // size of the largest file that is read
	maxResult    = 48 << 10  // bytes of one result, roughly
	maxLineShown = 500       // bytes of a line in search results
)

func openFiles(dir string, listed func(context.Context, string) ([]string, error)) (*files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder to read in: %w", err)
	}
	return &files{dir: dir, root: root, lister: listed}, nil
}

func (f *files) Close() error { return f.root.Close() }

// tool is the description of a tool that is sent to the model.
type tool struct {
	name, description string
	input             json.RawMessage // JSON schema of the input
}

func (f *files) tools() []tool {
	if f.root == nil {
		return nil
	}
	return []tool{
		{"read_file", "Read a text file of the project, with line numbers. A long file comes in parts.",
			json.RawMessage(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"from the top of the project"},` +
				`"offset":{"type":"integer","description":"first line, from 1"},` +
				`"limit":{"type":"integer","description":"how many lines"}},"required":["path"],"additionalProperties":false}`)},
		{"list_files", "List the files of the project, all or those that a glob fits.",
			json.RawMessage(`{"type":"object","properties":{` +
				`"glob":{"type":"string","description":"such as cmd/**/*.go, *.md or a folder; ** stands for any folders"}},"additionalProperties":false}`)},
		{"search", "Search the project's files for a text or a regular expression (RE2). Returns path, line number and line.",
			json.RawMessage(`{"type":"object","properties":{` +
				`"text":{"type":"string","description":"what to look for"},` +
				`"regexp":{"type":"boolean","description":"the text is a regular expression"},` +
				`"ignore_case":{"type":"boolean"},` +
				`"glob":{"type":"string","description":"only in files that this fits"}},"required":["text"],"additionalProperties":false}`)},
	}
}

// isUsedUp reports whether the model may read nothing more.
func (f *files) isUsedUp() bool { return f.limitFailure() != nil }

// limitFailure returns the failure of a model that keeps calling tools after its limit is used up, and nil within the limit.
func (f *files) limitFailure() *flow.Failure {
	switch {
	case f.root == nil && f.calls >= maxRefused || f.calls >= maxCalls:
		return fail(trellis.AgentProtocol, "the model calls tools without end: %d calls, and no answer", f.calls)
	case f.bytesShown >= maxShown:
		return fail(trellis.ContextOverflow, "the model wants to read more than %d KiB and does not answer", maxShown>>10)
	}
	return nil
}

// runTool carries out a tool call. The text of an error is the answer to the model.
func (f *files) runTool(ctx context.Context, c toolCall) (string, error) {
	if f.isUsedUp() {
		return "", errors.New("no more calls: answer now, with what you have seen")
	}
	f.calls++
	var text string
	err := fmt.Errorf("%w: there are no tools", errRefused)
	if f.root != nil {
		switch c.Name {
		case "read_file":
			text, err = f.read(c.Input)
		case "list_files":
			text, err = f.list(ctx, c.Input)
		case "search":
			text, err = f.search(ctx, c.Input)
		default:
			err = fmt.Errorf("%w: there are read_file, list_files and search", errRefused)
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	f.bytesShown += len(text)
	return text, err
}

// read returns part of a file, with line numbers.
func (f *files) read(input json.RawMessage) (string, error) {
	var in struct {
		Path          string
		Offset, Limit int
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("the input is wrong: %w", err)
	}
	path, err := f.resolve(in.Path)
	if err != nil {
		return "", err
	}
	data, err := f.readText(path)
	if err != nil {
		return "", err
	}
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	first := max(in.Offset, 1)
	if first > len(lines) {
		return fmt.Sprintf("(%s has %d lines)", in.Path, len(lines)), nil
	}
	until := len(lines)
	if in.Limit > 0 {
		until = min(until, first-1+min(in.Limit, until))
	}
	var b strings.Builder
	for n := first; n <= until; n++ {
		if b.Len() > maxResult {
			fmt.Fprintf(&b, "(%d more lines: continue with offset %d)\n", until-n+1, n)
			break
		}
		fmt.Fprintf(&b, "%d\t%s\n", n, shortenLine(strings.TrimRight(lines[n-1], "\r\n")))
	}
	return b.String(), nil
}

// shortenLine cuts a line that is longer than any that people write.
func shortenLine(line string) string {
	const most = 4 * maxLineShown
	if len(line) <= most {
		return line
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(line[:most], ""), len(line)-most)
}

// readText returns the content of a text file of at most maxFile bytes. path has to be a result of resolve.
func (f *files) readText(path string) ([]byte, error) {
	info, err := f.root.Lstat(path)
	switch {
	case err != nil:
		return nil, f.readError(path, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: list_files shows what is in it", filepath.ToSlash(path))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a plain file", filepath.ToSlash(path))
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, which is too much", filepath.ToSlash(path), info.Size())
	}
	file, err := durable.OpenBelow(f.dir, path, maxFile)
	if err != nil {
		return nil, f.readError(path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, f.readError(path, err)
	}
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return nil, fmt.Errorf("%s is not text", filepath.ToSlash(path))
	}
	return data, nil
}

// readError returns the error for a file that can't be read, without the path of the folder.
func (f *files) readError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s", filepath.ToSlash(path))
	}
	var at *fs.PathError
	var why *durable.FileError
	if errors.As(err, &at) {
		err = at.Err
	} else if errors.As(err, &why) {
		err = why.Err
	}
	return fmt.Errorf("%s: %w", filepath.ToSlash(path), err)
}

// Errors for calls of a model that are not allowed.
var (
	errRefused = errors.New("refused")
	errOutside = fmt.Errorf("%w: that is outside of the project", errRefused)
	errGitPath = fmt.Errorf("%w: .git is not to be read", errRefused)
)

// maxLinks is the largest number of symbolic links that a path may lead through.
const maxLinks = 40

// resolve returns a path given by the model as a path relative to the folder, without symbolic links.
func (f *files) resolve(path string) (string, error) {
	path = filepath.FromSlash(strings.TrimSpace(path))
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(f.dir, path)
		if err != nil {
			return "", errOutside
		}
		path = rel
	}
	path = filepath.Clean(path)
	for range maxLinks {
		if !filepath.IsLocal(path) {
			return "", errOutside
		}
		if isGitPath(path) {
			return "", errGitPath
		}
		next, err := f.followLink(path)
		if err != nil || next == path {
			return path, err
		}
		path = next
	}
	return "", fmt.Errorf("%s leads nowhere: too many links", filepath.ToSlash(path))
}

// isGitPath reports whether a path has a component .git.
func isGitPath(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

// followLink replaces the first symbolic link in path by its target. Without a link it returns path.
func (f *files) followLink(path string) (string, error) {
	parts := strings.Split(path, string(filepath.Separator))
	for i := range parts {
		at := filepath.Join(parts[:i+1]...)
		info, err := f.root.Lstat(at)
		if err != nil {
			return "", f.readError(path, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := f.root.Readlink(at)
		if err != nil {
			return "", f.readError(path, err)
		}
		if filepath.IsAbs(target) {
			return "", errOutside
		}
		return filepath.Join(append([]string{filepath.Dir(at), target}, parts[i+1:]...)...), nil
	}
	return path, nil
}
