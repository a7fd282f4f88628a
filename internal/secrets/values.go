package secrets

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	maxFiles = 100
	maxRead  = 1 << 20 // bytes of all files together
	maxDepth = 32      // depth of nested values
)

// InEnv returns the secret values in an environment: those of variables whose names say so, and what looks like a secret in any
// variable. Values of several lines are added line by line too. Short and common values are left out: masking them would hide
// ordinary text.
func InEnv(env []string) []string {
	var f finder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		f.addValue(name, value)
	}
	return f.values()
}

// ValuesIn returns the secret values in files below root, such as .env: those whose names say so, what looks like a secret, and
// what looks like nothing that a person would write. From a file whose name says that it is for secrets, it takes everything that
// is not a word, number or address. It ignores files that don't exist or are not text. In folders it reads only the first files,
// and does not take values that only look random: packages are full of them.
func ValuesIn(root string, paths []string) []string {
	var f finder
	files, bytes := maxFiles, int64(maxRead)
	for _, p := range paths {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			continue
		}
		named := filepath.Join(root, filepath.FromSlash(p))
		_ = filepath.WalkDir(named, func(path string, d fs.DirEntry, err error) error {
			if err != nil { // what can't be read has not been copied either
				return nil
			}
			st, err := os.Stat(path)
			if err != nil || !st.Mode().IsRegular() || st.Size() > bytes {
				return nil
			}
			if files--; files < 0 {
				return fs.SkipAll
			}
			bytes -= st.Size()
			f.vault, f.settings, f.folder = isVault(path), path == named, path != named
			f.addFile(path)
			return nil
		})
	}
	return f.values()
}

// isVault reports whether a file is there for secrets, by its name.
func isVault(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return strings.HasPrefix(name, ".env") || strings.HasSuffix(name, ".env") || slices.ContainsFunc([]string{"secret", "credential", "service-account", "service_account", "serviceaccount"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// finder collects secret values.
type finder struct {
	vault    bool // the file is there for secrets
	settings bool // the file was named itself
	folder   bool // the file is in a folder that was named
	list     []string
}

// values returns the values that were found, each once, without ordinary ones.
func (f *finder) values() []string {
	list := slices.DeleteFunc(f.list, isOrdinary)
	slices.Sort(list)
	return slices.Compact(list)
}

func (f *finder) add(values ...string) { f.list = append(f.list, values...) }

func (f *finder) addValue(name, v string) {
	v = strings.TrimSpace(v)
	f.add(findByShape(v)...)
	if f.addJSON(name, v) {
		return
	}
	if !isOrdinary(v) && f.isSecret(name, v) {
		f.add(partsOf(v)...)
	}
}

// isSecret reports whether a value is secret, by its name and by what it looks like.
func (f *finder) isSecret(name, v string) bool {
	h := hintOf(name)
	switch {
	case pathStart().MatchString(v):
		return false
	case strings.Contains(v, "://"):
		return h == surelySecret && (strings.ContainsAny(v, "@?=") || strings.Contains(strings.ToUpper(name), "WEBHOOK"))
	case h == surelySecret && !f.folder:
		return true
	case h != noHint:
		return strings.ContainsAny(v, digits) && (h == surelySecret || looksRandom(v) || hasMixedPart(v))
	}
	return f.settings && looksRandom(v) || f.vault && hasMixedPart(v)
}

// addJSON adds the values in a JSON object or array, and returns false if v is neither.
func (f *finder) addJSON(name, v string) bool {
	if v == "" || v[0] != '{' && v[0] != '[' {
		return false
	}
	var in any
	numbers := json.NewDecoder(strings.NewReader(v))
	numbers.UseNumber()
	if numbers.Decode(&in) != nil {
		return false
	}
	if hintOf(name) == surelySecret {
		f.add(v)
	}
	f.addNested(name, in, maxDepth)
	return true
}

// addNested adds the values in a JSON value.
func (f *finder) addNested(name string, in any, depth int) {
	if depth == 0 {
		return
	}
	switch in := in.(type) {
	case map[string]any:
		for key, v := range in {
			f.addNested(name+"."+key, v, depth-1)
		}
	case []any:
		for _, v := range in {
			f.addNested(name, v, depth-1)
		}
	case string:
		f.addValue(name, in)
	case json.Number:
		f.addValue(name, in.String())
	}
}

// addFile adds the values in a file.
func (f *finder) addFile(path string) {
	data, err := durable.Read(path, maxRead)
	if err != nil || slices.Contains(data, 0) {
		return
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	f.add(findByShape(text)...)
	if !f.addJSON("", strings.TrimSpace(text)) {
		f.addAssignments(text)
	}
}

// assignment matches NAME=value, name: value and similar lines, with or without quotes.
var assignment = trellis.Pattern(`^([ \t]*)(?:export\s+|set\s+|-\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[:=]\s*(.*?)\s*,?\s*$`)

// addAssignments adds the values of a text that assigns them line by line, such as .env or YAML.
func (f *finder) addAssignments(text string) {
	for rest := text; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if m := assignment().FindStringSubmatch(line); m != nil {
			for _, v := range valuesFrom(m[3], len(m[1]), after) {
				f.addValue(m[2], v)
			}
		}
		rest = after
	}
}

// valuesFrom returns the ways to read a value that begins with v, in a line with this indent that is followed by the text after.
func valuesFrom(v string, indent int, after string) []string {
	switch {
	case v == "":
		return nil
	case strings.ContainsRune("\"'`", rune(v[0])):
		return unquoted(v, after)
	case slices.Contains([]string{"|", "|-", "|+", ">", ">-"}, v):
		return []string{indented(after, indent)}
	}
	bare, _, _ := strings.Cut(v, " #")
	return slices.Compact([]string{v, strings.TrimSpace(bare)})
}

// maxQuoted is the maximum length of a quoted value that has several lines, in bytes.
const maxQuoted = 64 << 10

// unquoted returns the text in the quotes that v begins with, as it is and, if it differs, with its escape sequences replaced.
func unquoted(v, after string) []string {
	quote := v[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(v, triple) {
		quote = triple
	}
	text := v[len(quote):] + "\n" + after[:min(len(after), maxQuoted)]
	end := closingQuote(text, quote)
	if end < 0 {
		return []string{strings.Trim(v, quote)}
	}
	raw := text[:end]
	if quote[0] != '"' || !strings.Contains(raw, `\`) {
		return []string{raw}
	}
	return []string{raw, strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`, `\$`, "$").Replace(raw)}
}

// closingQuote returns the index of the quote that ends text, -1 if there is none.
func closingQuote(text, quote string) int {
	for i := 0; i+len(quote) <= len(text); i++ {
		switch {
		case text[i] == '\\' && quote[0] == '"':
			i++
		case text[i:i+len(quote)] == quote:
			return i
		}
	}
	return -1
}

// indented returns the lines at the beginning of a text that are indented by more than indent.
func indented(text string, indent int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if inner := strings.TrimLeft(line, " \t"); len(line)-len(inner) <= indent && strings.TrimSpace(line) != "" {
			break
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
