package criteria

import (
	"slices"
	"strings"
)

// maybeTableRow reports whether a line may be a row of a table.
func maybeTableRow(bare string) bool { return strings.HasPrefix(bare, "|") && len(bare) > 1 }

// cells returns the texts between the bars of a row. A bar after a backslash is text, in code too.
func cells(bare string) (list []string) {
	bare = strings.TrimPrefix(bare, "|")
	from := 0
	for i := 0; i < len(bare); i++ {
		if bare[i] == '|' && (i == 0 || bare[i-1] != '\\') {
			list, from = append(list, cell(bare[from:i])), i+1
		}
	}
	if last := cell(bare[from:]); last != "" {
		list = append(list, last)
	}
	return list
}

func cell(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, `\|`, "|")) }

// isDelimiter reports whether a line is the one below the head of a table.
func isDelimiter(bare string) bool {
	if !strings.ContainsAny(bare, "|") || !strings.Contains(bare, "-") {
		return false
	}
	return strings.Trim(bare, "|-: \t") == ""
}

// columns has the indexes of a table's columns; -1 for one that it does not have.
type columns struct {
	titles              []string
	text, verify, level int
	plain               bool // the verify column holds commands without code spans
}

func columnsOf(head []string) columns {
	c := columns{titles: head, text: -1, verify: -1, level: -1}
	for i, title := range head {
		name := strings.ToLower(strings.Trim(title, "*_`:： "))
		switch {
		case c.verify < 0 && (slices.Contains(verifyKeys, name) || name == "command"):
			c.verify, c.plain = i, true
		case c.verify < 0 && slices.Contains(looseKeys, name):
			c.verify = i
		case c.level < 0 && name == "level":
			c.level = i
		case c.text < 0 && (relationOf(title, false) == namesCriteria || slices.Contains(textColumns, name)):
			c.text = i
		}
	}
	return c
}

var textColumns = []string{"criterion", "criteria", "requirement", "description", "condition", "expectation", "what", "标准", "验收项", "条件", "要求", "描述", "描述说明",
	"kriterium", "kriterien", "anforderung", "bedingung", "critère", "critères", "criterio", "criterios", "critério", "critérios", "criteri", "критерий", "критерии", "требование", "条件・基準", "基準", "기준", "조건"}

// ignoredColumns are the titles of columns whose cells number a row, or show its progress.
var ignoredColumns = []string{"", "#", "no", "no.", "nr", "nr.", "id", "ac", "ac id", "序号", "编号", "№", "status", "done", "state", "ok", "状态", "статус", "estado", "statut"}

// parseRow returns the text of a row's item, its command and its level.
func (c columns) parseRow(row []string) (content string, verify, level string) {
	var parts []string
	for i, value := range row {
		if m := markerOf(value); m.box {
			value = m.text
		}
		name := strings.ToLower(strings.Trim(c.titles[i], "*_`:： "))
		switch {
		case value == "" || value == "-" || value == "—" || value == "–":
		case i == c.verify:
			verify = value
		case i == c.level:
			level = value
		case i == c.text:
			parts = slices.Insert(parts, 0, value)
		case slices.Contains(ignoredColumns, name):
		case c.text < 0 && len(c.titles) == 1:
			parts = append(parts, value)
		default:
			parts = append(parts, c.titles[i]+": "+value)
		}
	}
	return strings.Join(parts, "; "), verify, level
}
