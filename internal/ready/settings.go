package ready

import (
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// settings checks the values in task.json that config.yaml may have too, by the same rules. A run that has begun keeps the
// values it began with.
func (c *check) settings() {
	if c.Status == trellis.InProgress {
		return
	}
	if c.CheckPackage != nil {
		if err := c.CheckPackage(c.task.Package); err != nil {
			c.addAt("package", "name it under packages in .trellis/config.yaml, or use one that is there", "%v", err)
		}
	}
	for i, command := range c.task.Pipeline.Verify {
		if strings.TrimSpace(command) == "" {
			c.addAtItem("pipeline.verify", i, "write a command, or take it out", "pipeline.verify[%d] is empty", i+1)
		}
	}
	c.globs("pipeline.protected", c.task.Pipeline.Protected)
	c.globs("pipeline.touches", c.task.Pipeline.Touches)
}

// globs reports the globs that nothing can match.
func (c *check) globs(list string, globs []string) {
	for i, glob := range globs {
		if fault := config.GlobFault(c.Store.Root, glob); fault != "" {
			c.addAtItem(list, i, "write a path or a glob, such as api/**", "%s[%d] %s", list, i+1, fault)
		}
	}
}

// addAtItem is addAt for an item of a list.
func (c *check) addAtItem(list string, i int, hint, format string, args ...any) {
	c.addAt(c.keys(list, i), hint, format, args...)
}

// keys returns the keys of an item of a list, or of the text that stands in its place.
func (c *check) keys(list string, i int) string {
	key := fmt.Sprintf("%s.%d", list, i)
	if c.task.Line(key) == 0 {
		return list
	}
	return key
}
