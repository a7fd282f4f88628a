package secrets_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/secrets"
)

// FuzzPlanted plants a value in an environment or a file, under the name of a secret and in various quotes. A text in which the
// found values are masked does not contain it, in whatever spellings and pieces the text is written (edge S9).
func FuzzPlanted(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 9))
		value := anyValue(r)
		file, text := written(r, nameOf(r), value)
		var known []string
		if file == "" {
			known = secrets.InEnv([]string{"PATH=/bin", text})
		} else {
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			known = secrets.ValuesIn(root, []string{file})
		}
		var out strings.Builder
		w := proc.NewRedactor(known).Writer(&out)
		for rest := said(value); rest != ""; {
			n := 1 + r.IntN(len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		w.Close()
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= 8 && strings.Contains(out.String(), line) {
				t.Errorf("%q in %s: known are %q, and this is printed: %s", text, file, known, out.String())
			}
		}
	})
}

// anyValue returns a value of one line or more, with letters, a digit and maybe other characters.
func anyValue(r *rand.Rand) string {
	alphabet := []string{letters, letters + "+/=", letters + `!#%&*+,-./:;<=>?@[]^_{|}~"'\$ `, letters + "äß€😀 "}[r.IntN(4)]
	lines := []string{}
	for range 1 + r.IntN(3)*r.IntN(2) {
		b := []rune("k7")
		for range 10 + r.IntN(60) {
			b = append(b, []rune(alphabet)[r.IntN(len([]rune(alphabet)))])
		}
		lines = append(lines, string(b)+"z")
	}
	return strings.Join(lines, "\n")
}

// nameOf returns a random name of a secret.
func nameOf(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := pick("", "MY_", "DB_", "PROD_", "A1_") + pick("KEY", "API_KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "DSN", "JWT", "CREDENTIALS", "WEBHOOK") + pick("", "_V2", "_PROD", "_2", "_BASE64")
	return pick(name, strings.ToLower(name))
}

// written returns the name and text of a file that has the value, or "" and an entry of an environment.
func written(r *rand.Rand, name, value string) (file, text string) {
	inJSON, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "$", `\$`).Replace(value)
	ways := [][2]string{
		{"", name + "=" + value},
		{"", `ACCOUNT={"` + name + `": ` + string(inJSON) + `}`},
		{".env", "A=b\n" + name + "=\"" + escaped + "\"\nC=d\n"},
		{"secrets.json", `{"a": [{"` + name + `": ` + string(inJSON) + `}]}`},
		{"settings.json", "{\n\t\"a\": 1, \"b\": {\"" + name + "\": " + string(inJSON) + "}\n}\n"},
	}
	if !strings.ContainsAny(value, `'`) {
		ways = append(ways, [2]string{".env.prod", "export " + name + "='" + value + "' # it\n"}, [2]string{"a.yml", "- " + name + ": '" + value + "'\n"})
	}
	if !strings.ContainsAny(value, "\n \"'`#|>{[\\") && !strings.HasSuffix(value, ",") {
		ways = append(ways, [2]string{".env", name + "=" + value + "\r\n"}, [2]string{"a.conf", "  " + name + " = " + value + "\n"})
	}
	way := ways[r.IntN(len(ways))]
	return way[0], way[1]
}

// said returns a text that has the value in several spellings.
func said(value string) string {
	inJSON, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	indented := "    " + strings.ReplaceAll(value, "\n", "\n    ")
	return "it is " + value + "\n" + string(inJSON) + "\n" + indented + "\nhttps://example.org/?a=" + url.QueryEscape(value) + "&b=c\n" + value + value
}
