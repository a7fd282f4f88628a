package proc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func TestRedactor(t *testing.T) {
	r := proc.NewRedactor([]string{"hunter22", " spaced-secret\n", "short", "abcdefgh", "abcdefghijkl", "efghijklmnop", `quo"te/<x>` + "\nline"})
	tests := []struct{ in, want string }{
		{"", ""},
		{"nothing here", "nothing here"},
		{"password hunter22.", "password ***."},
		{"hunter22", "***"},
		{"hunter2", "hunter2"},
		{"short stays", "short stays"},
		{"spaced-secret", "***"},
		{"abcdefgh abcdefghi abcdefghijkl", "*** ***i ***"},
		{"abcdefghijklmnop", "***"},
		{"hunter22hunter22", "***"},
		{"hunter2hunter22", "hunter2***"},
		{"a " + `quo"te/<x>` + "\nline" + " z", "a *** z"},
		{`{"x":"quo\"te/\u003cx\u003e\nline"}`, `{"x":"***"}`},
		{`{"x":"quo\"te/<x>\nline"}`, `{"x":"***"}`},
		{"hunter22\xff\x00hunter22", "***\xff\x00***"},
	}
	for _, tt := range tests {
		if got := r.String(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
		for size := 1; size < len(tt.in); size++ {
			if got := redactInPieces(t, r, tt.in, size); got != tt.want {
				t.Errorf("%q in pieces of %d: got %q, want %q", tt.in, size, got, tt.want)
			}
		}
	}
	if got := new(proc.Redactor).String("hunter22"); got != "hunter22" {
		t.Errorf("zero value: got %q", got)
	}
}

// A secret is also masked as encoded in URLs and in base64, alone and as part of a longer text.
func TestRedactorKnowsSpellings(t *testing.T) {
	const secret = "pa/ss wörd+42~"
	r := proc.NewRedactor([]string{secret, "tiny"})
	for _, in := range []string{
		url.QueryEscape(secret), url.PathEscape(secret), "https://example.org/?a=b&token=" + url.QueryEscape(secret) + "&c=d",
		"Basic " + base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		if got := r.String(in); !strings.Contains(got, "***") || strings.Contains(got, in[len(in)-10:len(in)-4]) && !strings.HasSuffix(in, "&c=d") {
			t.Errorf("%q: got %q", in, got)
		}
	}
	for _, before := range []string{"", "u", "us", "user:"} {
		for _, after := range []string{"", "\n", ":x"} {
			in := base64.StdEncoding.EncodeToString([]byte(before + secret + after))
			got := r.String(in)
			plain, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(got, "***", ""))
			if !strings.Contains(got, "***") || len(got) > len(in)-len(secret)+3 || strings.Contains(string(plain), secret[2:6]) {
				t.Errorf("%q in base64: got %q", before+secret+after, got)
			}
		}
	}
	if in := "tiny " + base64.StdEncoding.EncodeToString([]byte("tiny")); r.String(in) != in {
		t.Errorf("a short value is masked: %q", r.String(in))
	}
}

func redactInPieces(t *testing.T, r *proc.Redactor, in string, size int) string {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for i := 0; i < len(in); i += size {
		piece := []byte(in[i:min(i+size, len(in))])
		if n, err := w.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Text that can't be part of a secret is passed on at once.
func TestRedactorHoldsBackNoMoreThanNeeded(t *testing.T) {
	var out bytes.Buffer
	w := proc.NewRedactor([]string{"hunter22"}).Writer(&out)
	w.Write([]byte("line one\nline two hunt"))
	if got, want := out.String(), "line one\nline two "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.Write([]byte("ing"))
	if got, want := out.String(), "line one\nline two hunting"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRedactorPassesErrorsOn(t *testing.T) {
	w := proc.NewRedactor([]string{"hunter22"}).Writer(failing{})
	if _, err := w.Write([]byte("text")); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("hunter22", "abcdefgh", "x hunter22 abcdefghunter22", 3)
	f.Add("aaaaaaaa", "aaaaaaaab", "aaaaaaaaaaaaaaaab", 1)
	f.Add("abababab", "babababa", "xabababababay", 5)
	f.Add("line\nbreak\"", "12345678", `"line\nbreak\""12345678`, 2)
	f.Fuzz(func(t *testing.T, a, b, in string, size int) {
		for _, s := range []string{a, b} { // make secrets likely to occur, whole and in part
			in = strings.ReplaceAll(in, "1", s)
			in = strings.ReplaceAll(in, "2", s[:len(s)/2])
		}
		if len(in) > 1<<14 {
			return
		}
		r := proc.NewRedactor([]string{a, b})
		want := r.String(in)
		for _, size := range []int{size&0xf + 1, 1} {
			if got := redactInPieces(t, r, in, size); got != want {
				t.Errorf("%q without %q, %q in pieces of %d: got %q, want %q", in, a, b, size, got, want)
			}
		}
		for _, s := range []string{a, b} {
			s = strings.TrimSpace(s)
			if len(s) < 8 || strings.Contains(s, "*") {
				continue
			}
			quoted, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(want, s) || strings.Contains(want, string(quoted[1:len(quoted)-1])) {
				t.Errorf("%q survives in %q", s, want)
			}
		}
		if !strings.Contains(want, "***") && want != in {
			t.Errorf("without a secret %q became %q", in, want)
		}
	})
}

// A secret is masked wherever it occurs in a text of any length (edge S11).
func TestRedactLongTexts(t *testing.T) {
	const secret = "s3cr3t-of-many-letters"
	r := proc.NewRedactor([]string{secret})
	for at := 64<<10 - len(secret); at <= 64<<10; at++ {
		before, after := strings.Repeat("a", at), strings.Repeat("b", 200<<10)
		if got := r.String(before + secret + after); got != before+"***"+after {
			t.Fatalf("a secret at byte %d is not masked alone: %d bytes", at, len(got))
		}
	}
}

// BenchmarkRedactor shows that the time grows with the text, not with the number of secrets: settings can hold thousands.
func BenchmarkRedactor(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 0123456789 times: a0b1c2d3e4f5g6h7.\n", 1<<20/80)
	for _, n := range []int{1, 100, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var secrets []string
			for i := range n {
				sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
				secrets = append(secrets, base64.RawURLEncoding.EncodeToString(sum[:]))
			}
			r := proc.NewRedactor(secrets)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}
