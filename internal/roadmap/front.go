package roadmap

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/text"
	"go.yaml.in/yaml/v3"
)

// frontMatter reads the settings between a first line of three dashes and the next one, and returns the offset of
// what follows.
func (rd *reader) frontMatter() int {
	all := rd.Roadmap.src
	begin := len(all) - len(bytes.TrimPrefix(all, []byte("\ufeff")))
	first, rest, ok := bytes.Cut(all[begin:], []byte("\n"))
	if !ok || !dashes(first) {
		return begin
	}
	at := begin + len(first) + 1
	for line := range bytes.Lines(rest) {
		if dashes(line) {
			rd.settings(all[begin+len(first)+1 : at])
			return at + len(line)
		}
		at += len(line)
	}
	if autoLine().Match(rest) { // else there is no second line of dashes and the first one is a rule
		rd.errorf(1, "put a line of three dashes below auto_advance", "the front matter has no end")
	}
	return begin
}

var autoLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\Aauto_advance\s*:`) })

func dashes(line []byte) bool { return string(bytes.TrimRight(line, " \t\r\n")) == "---" }

// autoKey is the key that lets steps be planned without a person's asking.
const autoKey = "auto_advance"

// settings reads the YAML of the front matter. Keys that are not ours are someone else's.
func (rd *reader) settings(block []byte) {
	var got struct {
		Auto bool `yaml:"auto_advance"`
	}
	if err := yaml.Unmarshal(block, &got); err != nil {
		line, message := text.YAMLError(err)
		rd.errorf(1+min(line, bytes.Count(block, []byte("\n"))), "auto_advance: true", "front matter: %s", message)
	}
	rd.Auto = got.Auto
	var keys map[string]any
	if yaml.Unmarshal(block, &keys) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if key != autoKey && strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(key)) == "autoadvance" {
			rd.warnf(1, autoKey+": true", "%s in the front matter is not read: the key is %s", key, autoKey)
		}
	}
}
