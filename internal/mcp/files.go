package mcp

import (
	"context"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// scheme is how the addresses of files of tasks begin.
const scheme = "trellis://task/"

// addFiles has clients read the files of task directories.
func (s *server) addFiles(to *sdk.Server) {
	to.AddResourceTemplate(&sdk.ResourceTemplate{Name: "task file", Description: "A file of a task directory, as prd.md, plan.json, task.json, report.md", URITemplate: scheme + "{dir}/{file}"},
		func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			said, err := s.within(ctx, func(context.Context) (string, error) { return s.file(r.Params.URI) })
			if err != nil {
				return nil, err
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: mediaType(r.Params.URI), Text: said}}}, nil
		})
}

// file is the text of the file at an address, as far as an answer goes.
func (s *server) file(address string) (string, error) {
	gone := sdk.ResourceNotFoundError(address)
	id, escaped, ok := strings.Cut(strings.TrimPrefix(address, scheme), "/")
	name, err := url.PathUnescape(escaped)
	if !ok || err != nil || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return "", gone
	}
	dir, err := s.task(id)
	if err != nil {
		return "", gone
	}
	said, err := s.p.Document(dir, name)
	if err != nil || said == "" {
		return "", gone
	}
	w := &window{most: maxResource}
	_, err = w.Write([]byte(said))
	return w.String(), err
}

// maxResource is how much of a file is given, in bytes.
const maxResource = 256 << 10

func mediaType(name string) string {
	switch {
	case strings.HasSuffix(name, ".json"):
		return "application/json"
	case strings.HasSuffix(name, ".md"):
		return "text/markdown"
	}
	return "text/plain"
}
