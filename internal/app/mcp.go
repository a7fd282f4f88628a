package app

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/mcpclients"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// MCPClient is a program that can start the MCP server, by its name, with what is in its settings.
func (e *Env) MCPClient(name string) (mcpclients.Entry, error) {
	c, err := mcpclients.New(name, e.Get)
	if err != nil {
		return mcpclients.Entry{}, AsKind(ErrUsage, err)
	}
	if c == nil {
		err := Usagef("unknown program %q (one of %s)", name, strings.Join(mcpclients.Names, ", "))
		if near := trellis.Nearest(name, mcpclients.Names); near != "" {
			err = WithHints(err, "did you mean: "+near)
		}
		return mcpclients.Entry{}, err
	}
	hash := sha256.Sum256([]byte(c.File))
	return mcpclients.Entry{Client: *c, Note: e.stateFile(filepath.Join("mcp", name+"-"+hex.EncodeToString(hash[:8])+".json")), Disk: e.Disk}, nil
}
