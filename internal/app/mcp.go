package app

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/mcpclients"
)

// MCPClient returns the entry of the MCP server in the settings of the named program, which can start it.
func (e *Env) MCPClient(name string) (mcpclients.Entry, error) {
	c, err := mcpclients.New(name, e.Get)
	if err != nil {
		return mcpclients.Entry{}, AsKind(ErrUsage, err)
	}
	if c == nil {
		return mcpclients.Entry{}, WithNearest(Usagef("unknown program %q (one of %s)", name, strings.Join(mcpclients.Names, ", ")), name, mcpclients.Names)
	}
	hash := sha256.Sum256([]byte(c.File))
	return mcpclients.Entry{Client: *c, Note: e.stateFile(filepath.Join("mcp", name+"-"+hex.EncodeToString(hash[:8])+".json")), Disk: e.Disk}, nil
}

// MCPElsewhere returns other servers of the same name that the program also finds when it is started in e.Dir.
func (e *Env) MCPElsewhere(c mcpclients.Entry) []mcpclients.Other {
	from := mcpclients.Start{Dir: e.Dir}
	if real, err := filepath.EvalSymlinks(e.Dir); err == nil {
		from.Dir = real
	}
	if repo, err := git.Open(e.Dir); err == nil {
		from.Main = repo.Main
	}
	return c.Elsewhere(from)
}
