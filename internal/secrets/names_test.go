package secrets_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/secrets"
)

// A name is that of a secret if a word such as key or token is anywhere in it, but not if it only has its letters (edge S9). Under
// a name that is about a secret, such as its limit, a value is secret only if it looks like one.
func TestNames(t *testing.T) {
	const words, odd = "correct-horse-staple", "h4x0r1ng7h3p14n3t"
	for _, c := range []struct {
		names           []string
		isWords, oddOne bool // whether the value words, or odd, is secret under these names
	}{
		{[]string{
			"API_KEY", "API_KEY_PROD", "APIKEY", "apiKey", "api.key", "MY_TOKEN_V2", "JWT", "JWT_SECRET", "SENTRY_DSN", "SLACK_WEBHOOK_URL", "webhookUrl", "DB_PASSWORD", "dbPasswd", "PGPASSWORD",
			"MYSQL_PWD", "DB_PASS", "GITHUB_PAT", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "GOOGLE_CREDENTIALS", "SECRETS", "CLIENTSECRET", "SSH_KEY_PASSPHRASE", "ConnectionStrings:Password",
			"KEY", "TOKEN", "NPM_TOKEN_2", "PRIVATE_KEY_PEM", "KEYCLOAK_CLIENT_SECRET", "PUBLIC_REPO_TOKEN", "KEYSTORE_PASSWORD", "DSN", "authToken", "SIGNING_KEYS", "SECRETKEY_BASE", "stripe.apiKey",
		}, true, true},
		{[]string{"AUTH", "NPM_AUTH", "MAX_TOKENS", "TOKEN_LIMIT", "PASSWORD_MIN_LENGTH", "JWT_ALGORITHM", "SECRET_NAME", "KEY_FILE", "TOKEN_URL", "SESSION_COOKIE"}, false, true},
		{[]string{
			"", "KEYBOARD", "KEYBOARD_LAYOUT", "MONKEY", "MONKEYPATCH", "TOKENIZERS_PARALLELISM", "TOKENIZER", "tokenizerName", "KEYWORDS", "HOTKEY", "TURKEY_REGION", "KEYCLOAK_HOST", "KEYMAP",
			"PUBLIC_KEY", "STRIPE_PUBLISHABLE_KEY", "SSH_PUB_KEY", "SSH_PUBKEY", "XAUTHORITY", "AUTHOR", "PATH", "COMPASS", "BYPASS_CACHE", "PASSTHROUGH", "PASSENGER_PORT", "SECRETARY", "HOST", "GIT_AUTHOR_NAME",
		}, false, false},
	} {
		for _, name := range c.names {
			for value, want := range map[string]bool{words: c.isWords, odd: c.oddOne} {
				if got := len(secrets.InEnv([]string{name + "=" + value})) > 0; got != want {
					t.Errorf("%s=%s: secret %v, want %v", name, value, got, want)
				}
			}
		}
	}
}

// A value that is short, common, an everyday number or only a placeholder is not a secret, whatever its name says (edge S9).
func TestCommonValues(t *testing.T) {
	for _, value := range []string{
		"true", "test", "localhost", "1234567", "postgres", "password", "changeme", "please-changeme", "example", "development", "${OTHER_TOKEN}", "$OTHER_TOKEN1", "$(pass show x)",
		"<your token>", "{{ vault.token }}", "your-api-key-here", "xxxxxxxxxxxx", "aaaaaaaaaaaa", "/run/secrets/db_password2", "~/.ssh/id_rsa1", "./keys/server1.pem", `C:\keys\server1.pem`,
		"https://auth.example.org/oauth2/token", "process.env.TOKEN1", "osxkeychain",
	} {
		env := []string{"API_KEY=" + value, "DB_PASSWORD=" + value}
		if !strings.ContainsAny(value, ` /\`) {
			env = append(env, "URL=postgres://app:"+value+"@db/app")
		}
		if got := secrets.InEnv(env); len(got) > 0 {
			t.Errorf("%s: got %q", value, got)
		}
	}
}
