package secrets_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/secrets"
)

func TestInEnv(t *testing.T) {
	env := []string{"DB_PASS=hunter2hunter2", "GITHUB_PAT=ghx_0123456789", "DATABASE_URL=postgres://ann:s3cretpw@db/x", "HTTPS_PROXY=http://u:pr0xypass@proxy:3128",
		"PWD=/srv/app2/x", "OLDPWD=/srv/app1", "GOOGLE_APPLICATION_CREDENTIALS=/srv/key1.json", "LOCAL_URL=postgres://postgres:postgres@localhost/x",
		"API_AUTH=$OTHER_VALUE1", "SHORT_KEY=a1", "PATH=/usr/bin1:/bin", "EDITOR=vim", "NO_VALUE_TOKEN"}
	want := []string{"ghx_0123456789", "hunter2hunter2", "pr0xypass", "s3cretpw"}
	if got := secrets.InEnv(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Secrets are recognized by what they look like too, whatever the name of the variable (edge S9).
func TestShapes(t *testing.T) {
	key := made(letters, 64) + "\n" + made(letters, 63) + "\n" + made(letters, 24)
	pem := "-----BEGIN RSA PRIVATE" + " KEY-----\n" + key + "\n-----END RSA PRIVATE" + " KEY-----"
	lines := strings.Split(key, "\n")
	jwt := "eyJ" + "hbGciOiJIUzI1NiJ9." + made(letters, 30) + "." + made(letters, 43)
	slack := "https://hooks." + "slack.com/services/T" + made(hex, 9) + "/B" + made(hex, 10) + "/" + made(letters, 24)
	discord := "https://discord" + ".com/api/webhooks/123456789012345678/" + made(letters, 68)
	teams := "https://example.webhook." + "office.com/webhookb2/" + made(hex, 36) + "@" + made(hex, 36) + "/IncomingWebhook/" + made(hex, 32) + "/" + made(hex, 36)
	account := `{"type": "service_account", "project_id": "my-project", "private_key_id": "` + made(hex, 40) + `", "private_key": "` + strings.ReplaceAll(pem, "\n", `\n`) + `\n", "client_email": "a@b.example.org"}`
	for name, c := range map[string]struct {
		value string
		want  []string
	}{
		"PEM":                         {pem, append(lines, pem)},
		"PEM with line ends in words": {strings.ReplaceAll(pem, "\n", `\n`), append(lines, strings.ReplaceAll(pem, "\n", `\n`))},
		"JWT":                         {"Bearer " + jwt, []string{jwt, made(letters, 43)}},
		"Slack":                       {slack, []string{slack, made(letters, 24)}},
		"Discord":                     {discord, []string{discord, made(letters, 68)}},
		"Teams":                       {teams, []string{teams}},
		"Sentry":                      {"https://" + made(hex, 32) + "@o1.ingest.sentry.example/42", []string{made(hex, 32)}},
		"a password, escaped":         {"postgres://app:p%40ss-w0rd@db/app", []string{"p%40ss-w0rd", "p@ss-w0rd"}},
		"a password of MySQL":         {"app:s3cret-pw@tcp(db:3306)/app", []string{"s3cret-pw"}},
		"a password among words":      {"Server=db;User Id=app;Password=s3cret-pw;", []string{"s3cret-pw"}},
		"a signature":                 {"https://x.blob.example.org/a?sv=2024&sig=" + made(letters, 40), []string{made(letters, 40)}},
		"a token that says so":        {"gh" + "p_" + made(letters, 36), []string{"gh" + "p_" + made(letters, 36)}},
		"a token with a dot":          {"SG" + "." + made(letters, 40), []string{"SG" + "." + made(letters, 40)}},
		"a key of AWS":                {"id AKIA" + "QYLPMN5HFIQR7XYA", []string{"AKIA" + "QYLPMN5HFIQR7XYA"}},
		"a key of Google":             {"AIza" + made(letters, 35), []string{"AIza" + made(letters, 35)}},
		"Google Chat":                 {"https://chat." + "googleapis.com/v1/spaces/" + made(letters, 20), []string{"https://chat." + "googleapis.com/v1/spaces/" + made(letters, 20)}},
		".netrc":                      {"machine db LOGIN app Password s3cret-pw", []string{"s3cret-pw"}},
		".npmrc":                      {"//registry.example.org/:_authToken=s3cret-pw", []string{"s3cret-pw"}},
		"JSON":                        {account, append(lines, made(hex, 40))},
		"a certificate":               {"-----BEGIN CERTIFICATE-----\n" + key + "\n-----END CERTIFICATE-----", nil},
		"a public key":                {"-----BEGIN PUBLIC KEY-----\n" + key + "\n-----END PUBLIC KEY-----", nil},
		"an address":                  {"https://example.org/hooks/a?page=2", nil},
		"JSON of nothing":             {`{"level": "information", "keyboard": "qwertz-layout-1"}`, nil},
	} {
		got := secrets.InEnv([]string{"THING=" + c.value})
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
		if c.want == nil && len(got) > 0 {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
		if strings.Contains(c.value, "service_account") && slices.ContainsFunc(got, func(v string) bool { return strings.Contains("service_account my-project a@b.example.org", v) }) {
			t.Errorf("%s: got %q, with words in it", name, got)
		}
	}
}

// Secret values in files that are copied to worktrees are found, in every way to write them down (edge S9).
func TestWaysToWriteValues(t *testing.T) {
	a, b, c := made(letters, 31), made(letters, 29), made(letters, 27)
	lines := a + "\n" + b + "\n" + c
	for name, f := range map[string]struct{ file, text string }{
		"several lines in quotes":     {".env", "A=1\nSIGNING_KEY=\"" + lines + "\"\nB=2\n"},
		"several lines, single":       {".env.local", "export SIGNING_KEY='" + lines + "' # why\n"},
		"line ends in words":          {".env", `SIGNING_KEY="` + strings.ReplaceAll(lines, "\n", `\n`) + `"` + "\n"},
		"CRLF":                        {".env", "A=" + a + "\r\nB_KEY=\"" + b + "\"\r\nC_TOKEN=" + c + "\r\n"},
		"JSON in quotes":              {".env", `CREDENTIALS='{"a_token": "` + a + `", "in": {"secret": "` + b + `", "list": ["` + c + `"]}}'` + "\n"},
		"JSON without":                {".env", `ACCOUNT={"a_token": "` + a + `", "in": {"secret": "` + b + `", "keys": ["` + c + `"]}}` + "\n"},
		"JSON, escaped in quotes":     {".env", `ACCOUNT="{\"a_token\": \"` + a + `\", \"b_token\": \"` + b + `\", \"keys\": [\"` + c + `\"]}"` + "\n"},
		"a quote that never ends":     {".env", "TITLE='tis so\nA_KEY=" + a + "\nB_KEY=\"" + b + "\nC_KEY=`" + c + "`\n"},
		"secrets.json":                {"secrets.json", `{"Stripe:ApiKey": "` + a + `", "plain": {"other": "` + b + `", "list": ["` + c + `"]}}`},
		"one line of JSON each":       {"my-secrets.json", "{\n  \"x\": \"" + a + "\",\n  \"y\": \"" + b + "\", // no JSON\n  \"z\": \"" + c + "\"\n}\n"},
		"YAML, a block":               {"conf.yml", "db:\n  signing_key: |\n    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\nport: 8080\n"},
		"TOML, three quotes":          {"conf.toml", "signing_key = \"\"\"\n" + lines + "\"\"\"\n"},
		".npmrc":                      {".npmrc", "//registry.example.org/:_authToken=" + a + "\n//b.example.org/:_password=" + b + "\n_auth = " + c + "\n"},
		".netrc":                      {".netrc", "machine a.example.org login u password " + a + "\nmachine b login v\n  password " + b + "\nmachine c login w password " + c + "\n"},
		"addresses":                   {"hosts.conf", "one https://u:" + a + "@a.example.org/ and redis://:" + b + "@cache:6379/0\nhttps://a.example.org/?access_token=" + c + "&x=y\n"},
		"comments behind, and spaces": {".env", "A_KEY = " + a + " # a\nB_KEY:  \"" + b + "\"   # b\nC_KEY=" + c + "   \n"},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, f.file), []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := secrets.ValuesIn(root, []string{f.file})
		for _, want := range []string{a, b, c} {
			if !slices.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
	}
}

// Ordinary values in such files are not taken for secrets.
func TestWhatIsOrdinaryInFiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		".env": "PORT=8080\nNODE_ENV=development\nAPP_NAME=acme-store-2024\nAWS_REGION=eu-central-1\nHOST=https://internal.example.org:8080/some/path\nIMAGE=node:20-alpine3.19\nDB=mysql8.0-utf8mb4\n" +
			"VERSION=1.2.3-beta4\nWHEN=2024-01-01T12:00:00Z\nBUILD=20240101T120000Z\nMAIL=ann.smith2@example.org\nLIST=alpha,beta2,gamma\nKEYBOARD=qwertz-layout-de105\nMAX_TOKENS=200000000\nFLAG=true\nLOG=/var/log/app1/out.log\n" +
			"DATABASE_URL=postgres://postgres:postgres@localhost/app\nCACHE=redis://localhost:6379/0\nTITLE=\"A title of 2 words\"\nARCH=x86_64-linux-gnu\n",
		"secrets.json": `{"type": "service_account", "project": "my-project-42", "auth_uri": "https://accounts.example.org/o/oauth2/auth", "email": "app@my-project-42.example.org", "n": 12345, "on": true, "no": null}`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := secrets.ValuesIn(root, []string{name}); len(got) > 0 {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
