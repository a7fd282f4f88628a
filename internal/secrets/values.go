package secrets

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	maxFiles   = 100
	maxFile    = 1 << 20 // bytes
	minGuessed = 20      // bytes of a value whose name says nothing
	minEntropy = 3.5     // of such a value, in bits a byte
	letters    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// assignment is NAME=value, name: value and the like, with or without quotes.
var assignment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:export\s+|-\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[:=]\s*(.*?)\s*,?\s*$`)
})

// telling is a name that says that its value is secret.
var telling = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:key|token|secret|passwd|password|passphrase|pass|pwd|credentials?|auth)$`)
})

// inURL is the password in a URL.
var inURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z][\w+.-]*://[^\s/:@]*:([^\s/@]+)@`) })

// ValuesIn are the secret values in files below root, .env say: those whose name says so, passwords in URLs, and what
// looks as nobody would write it. What is ordinary, a port or a host, is not among them. Files that are not there, and
// those that are no text, have none; of a folder all files are read.
func ValuesIn(root string, paths []string) (list []string) {
	left := maxFiles
	for _, p := range paths {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			continue
		}
		_ = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(p)), func(path string, d fs.DirEntry, err error) error {
			switch {
			case left == 0:
				return fs.SkipAll
			case err != nil || d.IsDir():
				return nil // what can't be read has not been copied either
			}
			left--
			list = append(list, valuesOf(path)...)
			return nil
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func valuesOf(path string) (list []string) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil || slices.Contains(data, 0) {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		for _, m := range inURL().FindAllStringSubmatch(line, -1) {
			list = append(list, m[1])
		}
		m := assignment().FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		if v := unquoted(m[2]); telling().MatchString(m[1]) || random(v) {
			list = append(list, v)
		}
	}
	return slices.DeleteFunc(list, func(v string) bool { return len(v) < minKnown || ordinary(v) })
}

// unquoted is a value without quotes, and without the comment behind it.
func unquoted(v string) string {
	if len(v) > 1 && (v[0] == '"' || v[0] == '\'') {
		if end := strings.IndexByte(v[1:], v[0]); end >= 0 {
			return v[1 : 1+end]
		}
	}
	v, _, _ = strings.Cut(v, " #")
	return strings.TrimSpace(v)
}

// random reports whether a value is long, has letters and digits, and repeats itself little.
func random(v string) bool {
	return len(v) >= minGuessed && !strings.ContainsAny(v, " /:@") && strings.ContainsAny(v, "0123456789") &&
		strings.ContainsAny(v, letters) && entropy(v) >= minEntropy
}

// ordinary reports whether a value only stands for one: a variable, a place to fill in, a single letter again and again.
func ordinary(v string) bool {
	return strings.HasPrefix(v, "$") || strings.HasPrefix(v, "<") || strings.HasPrefix(v, "{") ||
		strings.Trim(v, v[:1]) == "" || strings.Contains(strings.ToLower(v), "changeme")
}
