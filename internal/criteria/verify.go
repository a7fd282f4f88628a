package criteria

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// spanAt returns the length of the code span at the start of a text, 0 if there is none, and its code.
func spanAt(s string) (size int, code string) {
	n := countLeading(s, '`')
	if n == 0 {
		return 0, ""
	}
	for at := n; at < len(s); {
		i := strings.IndexByte(s[at:], '`')
		if i < 0 {
			break
		}
		at += i
		run := countLeading(s[at:], '`')
		if run == n {
			return at + n, spanContent(s[n:at])
		}
		at += run
	}
	return 0, ""
}

// spanContent returns the content of a code span: a space on both sides belongs to its ticks.
func spanContent(s string) string {
	if strings.HasPrefix(s, " `") || strings.HasSuffix(s, "` ") {
		return strings.TrimSuffix(strings.TrimPrefix(s, " "), " ")
	}
	return strings.TrimSpace(s)
}

// key is a line such as "verify: x". plain is set if its value is a command even outside of code.
type key struct {
	name  string // verify, level
	value string
	plain bool
}

var (
	verifyKeys = []string{"verify", "verify with", "verify by", "verify using", "verify command", "verified by", "verified with", "verification command", "验证命令"}
	// looseKeys are followed by prose as often as by a command, which then has to be in code.
	looseKeys = []string{"verification", "how to verify", "verification method", "验证", "验证方式", "验证方法", "驗證", "prüfen mit", "prüfen", "prüfung", "überprüfung",
		"vérifier", "vérification", "verificar", "verificación", "verificação", "verifica", "проверка", "проверить", "検証", "確認", "검증", "확인"}
)

// keyOf reads a line that says how an item is verified, or its level.
func keyOf(s string) (k key, ok bool) {
	name, value, found := cutColon(s)
	name = strings.ToLower(strings.Trim(name, "*_` "))
	value = strings.TrimSpace(strings.TrimLeft(value, "*_"))
	switch {
	case found && name == "level":
		return key{"level", value, true}, true
	case found && slices.Contains(verifyKeys, name):
		return key{"verify", value, true}, true
	case found && slices.Contains(looseKeys, name):
		return key{"verify", value, false}, true
	}
	if !strings.Contains(s, "`") {
		return key{}, false
	}
	m := verifyWith().FindString(s)
	if size, _ := spanAt(s[len(m):]); m != "" && size > 0 {
		return key{"verify", s[len(m):], false}, true
	}
	return key{}, false
}

var verifyWith = trellis.Pattern(`^(?i:[*_]{0,3}verif(?:y|ied)(?:\s+(?:it|this))?(?:\s+(?:with|by|using|via|by running))?[*_]{0,3}\s+)`)

// fillerWords are words that may precede, separate or follow the commands of a verify line.
var fillerWords = []string{"", "run", "running", "by running", "using", "with", "and", "and then", "then", ",", ", and", ";", "&&", ".", "passes", "pass", "passes.", "pass.", "succeeds", "succeeds.", "exits 0", "exits 0.", "exits with 0", "exits with 0.", "is green", "green"}

// commandsIn returns the commands in the value of a verify line. Words that are not part of a command make it unclear.
func commandsIn(k key) (list []string, clear bool) {
	v := k.value
	inCode := strings.HasPrefix(v, "`")
	if word, rest, ok := strings.Cut(v, "`"); ok && !inCode && slices.Contains(fillerWords, strings.ToLower(strings.TrimSpace(word))) {
		inCode, v = true, "`"+rest
	}
	if !inCode {
		if isProse(v) {
			return nil, false
		}
		return []string{v}, k.plain && !strings.HasPrefix(v, "```")
	}
	for v != "" {
		size, code := spanAt(v)
		if size == 0 || code == "" {
			return nil, false
		}
		list, v = append(list, code), v[size:]
		n := strings.IndexByte(v, '`')
		if n < 0 {
			n = len(v)
		}
		if !slices.Contains(fillerWords, strings.ToLower(strings.TrimSpace(v[:n]))) {
			return nil, false
		}
		v = v[n:]
	}
	return list, true
}

// proseWords are words with which no command begins. A command of that name has to be in code.
var proseWords = []string{"a", "an", "the", "that", "this", "it", "its", "all", "each", "every", "when", "by", "in", "on", "no", "not", "manually", "manual", "visually", "visual", "looking", "checking", "opening", "reading", "asking",
	"manuell", "von", "manuellement", "manualmente", "вручную", "-", "–", "—"}

// unspacedProse are such beginnings in languages that put no space between words.
var unspacedProse = []string{"手动", "手工", "人工", "目视", "目測", "目視", "手動", "수동", "육안"}

// isProse reports whether what should be a command is prose, or a placeholder.
func isProse(value string) bool {
	s := strings.ToLower(strings.Trim(value, "*_.<>[]() "))
	word, _, _ := strings.Cut(s, " ")
	return value != "" && (slices.Contains(placeholders, s) || slices.Contains(proseWords, strings.TrimRight(word, ",:;"))) ||
		slices.ContainsFunc(unspacedProse, func(p string) bool { return strings.HasPrefix(s, p) })
}

var plainVerifyEnd = trellis.Pattern("(?i)(?:[(\\[—–;,.]\\s*|\\s(?:-\\s*)?)\\**verif(?:y|ied)(?:\\s+(?:with|by))?\\**:\\s*([^`\\s].*)$")

var codeVerifyEnd = trellis.Pattern("(?i)[\\s(\\[—–;,.-]*[\\s(\\[—–]\\**verif(?:y|ied)(?:\\s+(?:it|this))?(?:\\s+(?:with|by|using|via))?:?\\**\\s*(`+[^`].*`)[)\\].]*$")

// splitVerify splits the command off an item that has one at its end: text (verify: `x`).
func splitVerify(s string) (text string, commands []string) {
	if !strings.Contains(s, "`") {
		return s, nil
	}
	m := codeVerifyEnd().FindStringSubmatchIndex(s)
	if m == nil {
		return s, nil
	}
	list, clear := commandsIn(key{name: "verify", value: s[m[2]:m[3]]})
	if !clear || len(list) == 0 {
		return s, nil
	}
	return strings.TrimSpace(s[:m[0]]), list
}

// blockCommands returns the commands of a code block, one per line, and false if it takes a shell to separate them.
func blockCommands(lines []string) (list []string, ok bool) {
	open := ""
	for _, s := range lines {
		s = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "$ "))
		if open == "" && (s == "" || strings.HasPrefix(s, "#")) {
			continue
		}
		if cut, more := strings.CutSuffix(s, `\`); more {
			open += cut
			continue
		}
		list, open = append(list, open+s), ""
	}
	if open != "" {
		list = append(list, strings.TrimSpace(open))
	}
	return list, len(list) > 0 && (len(list) == 1 || !slices.ContainsFunc(list, isCompound))
}

// isCompound reports whether a line is part of a longer command, or affects the following ones.
func isCompound(s string) bool {
	word, _, _ := strings.Cut(s, " ")
	if slices.Contains([]string{"for", "while", "until", "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "{", "}", "function", "cd", "export", "set", "source", ".", "trap"}, strings.TrimRight(word, ";")) {
		return true
	}
	name, _, assigns := strings.Cut(word, "=")
	return assigns && word == s && name != "" || strings.Contains(s, "<<") || strings.Contains(s, " #") || strings.Count(s, `"`)%2 == 1 || strings.Count(s, "'")%2 == 1 ||
		strings.HasSuffix(s, "&") || strings.HasSuffix(s, "|") || strings.HasSuffix(s, "{") || strings.HasSuffix(s, "(") || strings.HasPrefix(s, ")") || strings.HasSuffix(s, ";;")
}

// joinCommands returns one command that succeeds if every one of the list does.
func joinCommands(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	var parts []string
	for _, s := range list {
		s = strings.TrimRight(s, "; ")
		if strings.ContainsAny(s, ";|&") {
			s = "( " + s + " )"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " && ")
}
