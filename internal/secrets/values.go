package secrets

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	maxFiles   = 100
	maxRead    = 1 << 20 // bytes of all files together
	minGuessed = 20      // bytes of a value whose name says nothing
	minEntropy = 3.5     // of such a value, in bits a byte
	digits     = "0123456789"
	letters    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// assignment is NAME=value, name: value and the like, with or without quotes.
var assignment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:export\s+|-\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[:=]\s*(.*?)\s*,?\s*$`)
})

// telling is a name that says that its value is secret.
var telling = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:key|token|secret|passwd|password|passphrase|pass|pwd|_pat|credentials?|auth)$`)
})

// inURL is the password in a URL.
var inURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z][\w+.-]*://[^\s/:@]*:([^\s/@]+)@`) })

// ValuesIn are the secret values in files below root, .env say: those whose name says so, passwords in URLs, and what
// looks as nobody would write it. What is ordinary, a port or a host, is not among them. Files that are not there, and
// those that are no text, have none. Of a folder the first files are read, and what only looks random is left: packages are
// full of it.
func ValuesIn(root string, paths []string) (list []string) {
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
			list = append(list, valuesOf(path, path == named)...)
			return nil
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// InEnv are the secret values in an environment: those of variables whose name says so, and passwords in URLs. Paths, and
// what has no digit, postgres say, are none: they stand everywhere.
func InEnv(env []string) (list []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if telling().MatchString(name) {
			list = append(list, value)
		}
		for _, m := range inURL().FindAllStringSubmatch(value, -1) {
			list = append(list, m[1])
		}
	}
	return slices.DeleteFunc(list, func(v string) bool {
		return len(v) < minKnown || ordinary(v) || filepath.IsAbs(v) || !strings.ContainsAny(v, digits)
	})
}

func valuesOf(path string, settings bool) (list []string) {
	data, err := durable.Read(path, maxRead)
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
		v := unquoted(m[2])
		if named := telling().MatchString(m[1]); settings && (named || random(v)) || named && strings.ContainsAny(v, digits) {
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
	return len(v) >= minGuessed && !strings.ContainsAny(v, " /:@") && strings.ContainsAny(v, digits) &&
		strings.ContainsAny(v, letters) && entropy(v) >= minEntropy
}

// ordinary reports whether a value only stands for one: a variable, a place to fill in, a single letter again and again.
func ordinary(v string) bool {
	return strings.HasPrefix(v, "$") || strings.HasPrefix(v, "<") || strings.HasPrefix(v, "{") ||
		strings.Trim(v, v[:1]) == "" || strings.Contains(strings.ToLower(v), "changeme")
}
