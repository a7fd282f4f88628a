package roadmap

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// dependencyNames are other names for dependencies.
var dependencyNames = []string{"blocked by", "deps", "needs", "requires", "prerequisites"}

// likelyName returns the column or key that an unknown name seems to mean, "" if none is close.
func likelyName(name string) string {
	near := trellis.Nearest(name, []string{"step", "description", "status", "pr", "plan", "depends on", "dependencies"})
	if near == "dependencies" || slices.Contains(dependencyNames, name) {
		return "depends on"
	}
	return near
}

// columnTitles are the usual spellings of columns.
var columnTitles = map[string]string{"step": "Step", "description": "Description", "status": "Status", "pr": "PR", "plan": "Plan", "depends on": "Depends On"}

// warnOfMisspelledColumns warns of columns that seem to mean ones that the table lacks, if those would make it a roadmap.
func (rd *reader) warnOfMisspelledColumns(head row) {
	src := rd.Roadmap.src
	t, _, others := readColumns(src, head)
	columns := t.fieldsByName()
	meant := map[int]string{}
	for _, n := range others {
		if name := likelyName(columnName(cellText(head.raw(src, n)))); name != "" && *columns[name] < 0 {
			*columns[name], meant[n] = n, columnTitles[name]
		}
	}
	for _, n := range others {
		if meant[n] != "" && t.isRoadmap() && rd.yaml == nil {
			rd.warnf(rd.line(head.start), "did you mean "+meant[n], "the column %s is not read", cellText(head.raw(src, n)))
		}
	}
}

// stepKeys are the keys of a step in YAML; other keys belong to someone else.
var stepKeys = []string{"id", "description", "status", "pr", "plan", "depends_on"}

// warnOfMisspelledKeys warns of keys of a YAML step that seem to mean ones that it lacks.
func (rd *reader) warnOfMisspelledKeys(step *yaml.Node) {
	for i := 0; i+1 < len(step.Content); i += 2 {
		key := step.Content[i]
		if slices.Contains(stepKeys, key.Value) {
			continue
		}
		meant := strings.ReplaceAll(likelyName(columnName(key.Value)), " ", "_")
		if has, _ := field(step, meant); slices.Contains(stepKeys, meant) && has == nil {
			rd.warnf(rd.yaml.fileLine(key), "did you mean "+meant, "%s is not a key of a step, and is not read", key.Value)
		}
	}
}
