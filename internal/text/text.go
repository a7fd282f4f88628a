// Package text formats values for people: texts on one line or cut to a length, counts with their noun, durations, the tokens and the
// cost that agents used.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// OneLine returns s with every run of white space replaced by one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Cut returns the beginning of s: at most n bytes, without half a character, and an ellipsis if something was cut.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Tail returns the end of s: at most n bytes, without half a character, after an ellipsis if something was cut.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}

// LastLine returns the last line of s that is not empty, in at most 200 columns.
func LastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return Clip(strings.TrimSpace(lines[len(lines)-1]), 200)
}

// Indent returns s with each line indented by two columns.
func Indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// JoinFirst returns the first entries of a list, and how many more there are.
func JoinFirst(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// Backticks returns the length of the longest run of backticks in s.
func Backticks(s string) (most int) {
	for run := range strings.FieldsFuncSeq(s, func(r rune) bool { return r != '`' }) {
		most = max(most, len(run))
	}
	return most
}

// Count returns a number with its noun: 1 error, 2 errors.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Seconds formats a duration, to the second: 8s, 2m10s, 1h5m.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.String()
}

// Duration is [Seconds] with tenths of a second below ten seconds.
func Duration(d time.Duration) string {
	if d.Round(100*time.Millisecond) < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return Seconds(d.Seconds())
}

// Tokens formats a count in few letters: 950, 12.3k, 1.2M.
func Tokens(n int64) string { return scaled(n, "", "k", "M") }

// Bytes formats a size in few letters: 950 B, 12.3 KB, 1.2 GB.
func Bytes(n int64) string { return scaled(n, " B", " KB", " MB", " GB", " TB") }

// scaled formats n in the first of units, each a thousand times the one before, in which it is below 1000 once rounded.
func scaled(n int64, units ...string) string {
	if n < 1000 {
		return fmt.Sprint(n) + units[0]
	}
	value, unit := float64(n), ""
	for _, unit = range units[1:] {
		if value /= 1000; math.Round(value*10) < 10_000 {
			break
		}
	}
	return fmt.Sprintf("%.1f%s", value, unit)
}

// Cost formats what agents cost, or says that it is unknown.
func Cost(u trellis.Usage) string {
	if u.CostUSD == nil {
		return "cost unknown"
	}
	return AtLeast(u.CostPartial) + USD(*u.CostUSD, u.CostEstimated)
}

// AtLeast returns the sign before a sum of money that is incomplete.
func AtLeast(partial bool) string {
	if partial {
		return "≥ "
	}
	return ""
}

// USD formats an amount of money, with a sign before an estimate.
func USD(amount float64, estimated bool) string {
	if estimated {
		return fmt.Sprintf("~$%.2f", amount)
	}
	return fmt.Sprintf("$%.2f", amount)
}

// Usage formats what agents used: tokens, cost, time; "" for nothing.
func Usage(u trellis.Usage) string {
	if u.Tokens() == 0 && u.CostUSD == nil && u.Seconds == 0 {
		return ""
	}
	return fmt.Sprintf("%s tokens, %s, %s", Tokens(u.Tokens()), Cost(u), Seconds(u.Seconds))
}

// UsageParts returns what agents used, as far as it is known: tokens and cost, each as a part of a line.
func UsageParts(u trellis.Usage) (parts []string) {
	if n := u.Tokens(); n > 0 {
		parts = append(parts, Tokens(n)+" tokens")
	}
	if u.CostUSD != nil {
		parts = append(parts, Cost(u))
	}
	return parts
}

var yamlLine = trellis.Pattern(`(?s)line (\d+): (.*)`)

// YAMLError returns the line, from 1, and the message of an error in YAML.
func YAMLError(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine().FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the pattern
		message = m[2]
	}
	return max(line, 1), message
}

// JSON encodes v on one line, without escaping <, > and &.
func JSON(v any) ([]byte, error) {
	line, err := encode(v, "")
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// Indented encodes v as JSON for people, without escaping <, > and &, and with a newline at the end.
func Indented(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Valid reports whether b is text that agents may be shown: UTF-8 without a NUL, which other encodings contain.
func Valid(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// InvalidUTF8 returns the index of the first byte of s that is not UTF-8, or is NUL; -1 if there is none.
func InvalidUTF8(s string) int {
	for i, r := range s {
		if r == 0 || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return -1
}
