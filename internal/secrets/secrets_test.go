package secrets_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/secrets"
)

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hex     = "0123456789abcdef"
)

// made returns a value of n characters that looks random, is always the same, and is not written in any file.
func made(alphabet string, n int) string {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func scanner(t testing.TB, o secrets.Options) *secrets.Scanner {
	t.Helper()
	s, wrong := secrets.New(o)
	if len(wrong) > 0 {
		t.Fatalf("what can't be used: %v", wrong)
	}
	return s
}

func rules(found []secrets.Finding) (list []string) {
	for _, f := range found {
		list = append(list, f.Rule)
	}
	return list
}

func TestFinds(t *testing.T) {
	upper := "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	key := "-----BEGIN RSA PRIVATE" + " KEY-----\n" + strings.Repeat(made(letters, 64)+"\n", 4) + "-----END RSA PRIVATE" + " KEY-----\n"
	for _, c := range []struct{ rule, path, text string }{
		{"aws-access-token", "main.go", `var id = "` + "AK" + "IA" + made(upper, 16) + `"`},
		{"github-pat", "deploy.sh", "curl -H 'Authorization: token " + "gh" + "p_" + made(letters, 36) + "'"},
		{"github-fine-grained-pat", "ci.yml", "token: " + "github" + "_pat_" + made(letters, 82)},
		{"slack-bot-token", "bot.py", `TOKEN = "` + "xo" + "xb-" + "1234567890123-1234567890123-" + made(letters, 24) + `"`},
		{"stripe-access-token", "pay.rb", `Stripe.api_key = "` + "sk_" + "live_" + made(letters, 24) + `"`},
		{"private-key", "id_rsa", key},
		{"gcp-api-key", "map.js", `const k = "` + "AI" + "za" + made(letters, 35) + `"`},
		{"generic-api-key", "settings.py", `api_key = "` + made(letters, 40) + `"`},
		{"npm-access-token", ".npmrc", "//registry.npmjs.org/:_authToken=" + "np" + "m_" + made("abcdefghijklmnopqrstuvwxyz0123456789", 36)},
		{"pkcs12-file", "certs/site.p12", "\x00\x01\x02"},
		{"hashicorp-tf-password", "db.tf", `administrator_login_password = "` + made("abcdefghij0123456789", 14) + `"`},
		{"curl-auth-user", "x.sh", "curl -" + "u 'bob:" + made(letters, 16) + "' https://api.example.org/"},
	} {
		found := scanner(t, secrets.Options{}).Scan(c.path, 10, "first line\n"+c.text)
		if got := rules(found); !slices.Contains(got, c.rule) {
			t.Errorf("%s of %q: got %v", c.rule, c.path, got)
			continue
		}
		if f := found[0]; f.Line != 11 && f.Line != 0 || f.Path != c.path {
			t.Errorf("%s: got %v, want line 11 of %s", c.rule, f, c.path)
		}
	}
}

func TestPassesByWhatIsNone(t *testing.T) {
	for name, c := range map[string]struct{ path, text string }{
		"a uuid":                {"ids.go", `const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"`},
		"a commit":              {"notes.md", "since " + made(hex, 40)},
		"a checksum":            {"sums.txt", "sha256:" + made(hex, 64) + "  archive.tar.gz"},
		"a lock file":           {"package-lock.json", `"integrity": "sha512-` + made(letters, 86) + `==", "token": "` + made(letters, 40) + `"`},
		"go.sum":                {"go.sum", "example.org/key v1.0.0 h1:" + made(letters, 43) + "="},
		"the key in a manual":   {"README.md", "aws_access_key_id = " + "AKIA" + "IOSFODNN7EXAMPLE"},
		"a variable":            {"ci.yml", "token: ${{ secrets.DEPLOY_TOKEN }}"},
		"a name, no value":      {"main.go", "apiKey := os.Getenv(\"SERVICE_API_KEY\")"},
		"words":                 {"main.go", `key = "this-is-the-name-of-something"`},
		"a place to fill in":    {".env.example", "API_KEY=your-api-key-here"},
		"a certificate, public": {"site.pem", "-----BEGIN CERTIFICATE-----\n" + made(letters, 64) + "\n-----END CERTIFICATE-----"},
		"code about tokens":     {"lex.go", "func (l *lexer) token() Token { return l.tokens[l.position] }"},
		"a picture":             {"logo.png", `api_key = "` + made(letters, 40) + `"`},
		"a program":             {"tool", "\x7fELF\x00" + "gh" + "p_" + made(letters, 36)},
	} {
		if found := scanner(t, secrets.Options{}).Scan(c.path, 1, c.text); len(found) > 0 {
			t.Errorf("%s: got %v, want nothing", name, found)
		}
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	value := "gh" + "p_" + made(letters, 36)
	found := scanner(t, secrets.Options{Known: []string{value}}).Scan("a.txt", 1, "x "+value)
	if len(found) != 2 || found[0].Value() != value {
		t.Fatalf("got %v, want two findings", found)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if got := fmt.Sprintf(verb, found); strings.Contains(got, value) || strings.Contains(got, fmt.Sprintf("%x", value)) {
			t.Errorf("%s prints it: %s", verb, got)
		}
	}
}

func TestKnownValues(t *testing.T) {
	s := scanner(t, secrets.Options{Known: []string{"tall blue horse", "short", " tall blue horse\n"}})
	found := s.Scan("package-lock.json", 5, "one\nshort tall blue horse\ntall blue horse tall blue horse\n")
	if got, want := fmt.Sprint(found), "[package-lock.json:6 (known-secret) package-lock.json:7 (known-secret)]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Scan("a.bin", 1, "\x00tall blue horse"); len(got) != 1 {
		t.Errorf("in a binary: got %v, want one", got)
	}
}

func TestValuesInFiles(t *testing.T) {
	root := t.TempDir()
	odd := made(letters, 30)
	for name, text := range map[string]string{
		".env": "# comment\nPORT=8080\nNODE_ENV=development-mode-of-ours\nDB_PASSWORD='horse battery'\nexport SESSION_SECRET=\"abc-def-ghi\" # why\n" +
			"DATABASE_URL=postgres://app:s3cr3t-pw@localhost:5432/app\nODD=" + odd + "\nAPI_KEY=${OTHER}\nSMALL_KEY=short\nHOST=https://internal.example.org:8080/some/path\n",
		"conf/app.yml":   "service:\n  token: yaml-token-1\n  key: Backspace\n  odd: " + odd + "x\n  name: a-service\n",
		"conf/app.json":  "{\n  \"client_secret\": \"json-secret-1\",\n  \"title\": \"Something ordinary\"\n}\n",
		"conf/data.bin":  "DB_PASSWORD=\x00binary-password",
		"elsewhere.conf": "token=not-asked-for",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := secrets.ValuesIn(root, []string{".env", "conf", "missing", "../outside"})
	want := []string{"horse battery", "abc-def-ghi", "s3cr3t-pw", odd, "yaml-token-1", "json-secret-1"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProjectSettings(t *testing.T) {
	token := "gh" + "p_" + made(letters, 36)
	for _, c := range []struct {
		name, config, ignore, path string
		want                       []string
	}{
		{"as it is", "", "", "a.go", []string{"github-pat"}},
		{"a path", "[[allowlists]]\npaths = ['''^testdata/''']\n", "", "testdata/a", nil},
		{"another path", "[[allowlists]]\npaths = ['''^testdata/''']\n", "", "a.go", []string{"github-pat"}},
		{"the old form", "[allowlist]\nregexes = [ \"gh" + "p_[a-zA-Z0-9]{36}\", # all\n]\n", "", "a.go", nil},
		{"one rule's", "[[allowlists]]\ntargetRules = [\"github-pat\"]\npaths = ['a.go']\n", "", "a.go", nil},
		{"another rule's", "[[rules]]\nid = 'gitlab-pat'\n[[rules.allowlists]]\npaths = ['a.go']\n", "", "a.go", []string{"github-pat"}},
		{"and", "[[allowlists]]\ncondition = 'AND'\npaths = ['a.go']\nstopwords = ['nothing']\n", "", "a.go", []string{"github-pat"}},
		{"turned off", "[extend]\nuseDefault = true\ndisabledRules = ['github-pat']\n", "", "a.go", nil},
		{"a rule of its own", "[[rules]]\nid = 'ours'\nregex = 'x: gh" + "p'\nkeywords = ['X:']\n", "", "a.go", []string{"github-pat", "ours"}},
		{"ignored", "", "# why\na.go:github-pat:3\n", "a.go", nil},
		{"another line ignored", "", "a.go:github-pat:4\n", "a.go", []string{"github-pat"}},
	} {
		s := scanner(t, secrets.Options{Config: c.config, Ignore: c.ignore})
		if got := rules(s.Scan(c.path, 3, "x: "+token+" # gitleaks:allow")); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBrokenSettingsAreTold(t *testing.T) {
	token := "gh" + "p_" + made(letters, 36)
	for config, want := range map[string]string{
		"x = [1, 2\ny = 3":                         "line 2 (last key \"x\"): expected a comma (',') or array terminator (']'), but got 'y'",
		"[[rules]]\nid = 'a'\nregex = '('":         "rule a: error parsing regexp: missing closing ): `(`",
		"[[rules]]\nid = 'a'":                      `rule "a" is empty`,
		"[[allowlists]]\nregexes = ['[']":          "an allowlist: error parsing regexp: missing closing ]: `[`",
		"[extend]\npath = '/etc/passwd'":           "what it extends by path or url is not read",
		"a = 1\na.b = 2":                           "line 2 (last key \"a.b\"): Key 'a' has already been defined.",
		"a = " + strings.Repeat("[", 100):          "line 1: values within more than 32 values",
		"[[rules]]\nid = 3":                        "line 2 (last key \"rules.id\"): incompatible types: TOML value has type int64; destination has type string",
		"\n" + strings.Repeat("a.", 100) + "a = 1": "line 2: values within more than 32 values",
		strings.Repeat(`["""""""",`, 100):          "line 1: values within more than 32 values",
		"[" + strings.Repeat("a", 9000) + "]\n" + strings.Repeat("a=1\n", 9000): "it is too large",
		"[[rules]]\nid='a'\nregex='a'\n[[rules.required]]\nid='b'":              "rule a depends on another",
	} {
		s, wrong := secrets.New(secrets.Options{Config: config})
		if len(wrong) != 1 || wrong[0] != want {
			t.Errorf("%q: got %q, want %q", config, wrong, want)
		}
		if len(s.Scan("a.go", 1, token)) != 1 {
			t.Errorf("%q: nothing is found any more", config)
		}
	}
}

// No secret is found in the files of this package, although its rules contain examples.
func TestOwnFilesHoldNone(t *testing.T) {
	files, err := filepath.Glob("*")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %v, %v", files, err)
	}
	s := scanner(t, secrets.Options{})
	for _, name := range append(files, "gitleaks/gitleaks.toml", "gitleaks/LICENSE") {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		for _, f := range s.Scan("internal/secrets/"+name, 1, string(data)) {
			t.Errorf("%v", f)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add("a.go", "key = \"x\"\n", "[[rules]]\nid = 'a'\nregex = 'a'", "tall blue horse")
	f.Add("id.p12", "\x00", "[a.\"b\"]\nc = { d = [1, 'x'], e = \"\\u00e9\" }", "")
	f.Add("x.yaml", "kind: Secret\ndata:\n  a: "+strings.Repeat("QUJD", 10), "x = '''\na'''", "12345678")
	f.Fuzz(func(t *testing.T, path, text, config, known string) {
		s, _ := secrets.New(secrets.Options{Config: config, Ignore: config, Known: []string{known}})
		for _, found := range s.Scan(path, 1, text) {
			if v := found.Value(); len(v) >= 8 && !strings.Contains(path+found.Rule, v) && strings.Contains(fmt.Sprintf("%+v %#v %s", found, found, found), v) {
				t.Errorf("printed: %v", found)
			}
			if found.Line < 0 || found.Line > 1+strings.Count(text, "\n") {
				t.Errorf("line %d of %d", found.Line, 1+strings.Count(text, "\n"))
			}
		}
	})
}

func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, "\tif token := l.next(%d); token.Kind != keyword && !author.Access(key) { // see https://example.org/%d\n\t\treturn fmt.Errorf(\"reading %%s: %%w\", name, err)\n\t}\n", i, i)
	}
	s := scanner(b, secrets.Options{Known: []string{"tall blue horse"}})
	s.Scan("a.go", 1, text.String())
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if found := s.Scan("a.go", 1, text.String()); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
