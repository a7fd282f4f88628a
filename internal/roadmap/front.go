package roadmap

import (
	"strings"

	"github.com/trellis-tasks/trellis/internal/frontmatter"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// autoKey is the key that allows planning steps without a person asking.
const autoKey = "auto_advance"

// readFrontMatter reads the settings at the beginning of the file, and returns the offset of the text after them.
func (rd *reader) readFrontMatter() int {
	block, rest, fault := frontmatter.Cut(rd.Roadmap.src, []string{autoKey})
	switch {
	case fault != nil:
		rd.problems = append(rd.problems, *fault)
	case block != nil:
		rd.readSettings(block)
	}
	return rest
}

// readSettings reads the YAML of the front matter. Other keys than autoKey belong to someone else.
func (rd *reader) readSettings(block []byte) {
	var got struct {
		Auto bool `yaml:"auto_advance"`
	}
	if err := yaml.Unmarshal(block, &got); err != nil {
		p := frontmatter.Wrong(block, err)
		rd.errorf(p.Line, autoKey+": true", "%s", p.Message)
	}
	rd.Auto = got.Auto
	var doc yaml.Node
	if yaml.Unmarshal(block, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return
	}
	if key, _ := field(doc.Content[0], autoKey); key != nil {
		return
	}
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		key := doc.Content[0].Content[i]
		if spelled := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(key.Value)); trellis.Nearest(spelled, []string{autoKey}) != "" {
			rd.warnf(key.Line, autoKey+": true", "%s in the front matter is not read: the key is %s", key.Value, autoKey)
		}
	}
}
