package secrets_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/secrets"
)

// NameMayBeSecret, by which variables are withheld from commands, recognizes the names whose values are masked, and more (edge S9):
// whatever is surely secret may be secret.
func TestMayName(t *testing.T) {
	for name := range strings.FieldsSeq(`API_KEY_PROD dbPassword JWT SENTRY_DSN SLACK_WEBHOOK_URL DB_PASS MYSQL_PWD GITHUB_PAT CREDS GIT_ASKPASS COMPOSER_AUTH NODE_AUTH_TOKEN
		npm_config__authToken SOME_COOKIE GOAUTH PYTHON_KEYRING_BACKEND ANDROID_KEYSTORE GOOGLE_APPLICATION_CREDENTIALS SSH_PASSPHRASE DOOR_PASSCODE`) {
		if !secrets.NameMayBeSecret(name) {
			t.Errorf("%s is not the name of a secret", name)
		}
	}
	for name := range strings.FieldsSeq(`PATH PWD OLDPWD HOME GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL NODE_PATH PYTHONPATH GOPATH CGO_ENABLED RUSTFLAGS NODE_OPTIONS JAVA_HOME PATCH`) {
		if secrets.NameMayBeSecret(name) {
			t.Errorf("%s is the name of a secret", name)
		}
	}
}

func TestMayHold(t *testing.T) {
	for _, value := range []string{"https://ann:geheim@example.org", "redis://:geheim@r", "https://0123456789abcdef@sentry.example.org/1", "-Ppassword=geheim", "-Dapi.secret=geheim", "-----BEGIN PRIVATE", "eyJhbGciOi.x",
		"gh" + "p_0123456789", "whsec" + "_0123456789", "lin_api" + "_0123456789"} {
		if !secrets.MayBeSecret("THING", value) {
			t.Errorf("%s holds none", value)
		}
	}
	for _, value := range []string{"/usr/bin:/home/ann/.npm/bin", "https://proxy.example.org", "-mod=vendor", "-Xmx1g", "npm_lifecycle_event", "task-runner"} {
		if secrets.MayBeSecret("THING", value) {
			t.Errorf("%s holds one", value)
		}
	}
}

func TestInSettings(t *testing.T) {
	for _, text := range []string{"//registry/:_authToken=geheim1", "<password>geheim1</password>", "nexusPassword=geheim1", "channels:\n  - https://conda.example.org/t/0123456789/main\n", "extraheader = Authorization: basic geheim1"} {
		if !secrets.InSettings([]byte(text)) {
			t.Errorf("%q holds none", text)
		}
	}
	for _, text := range []string{"[user]\n\tname = Ann\n\tsigningkey = ABCD\n", "<settings><mirrors/></settings>\n", "umask 022\n# password = x\n", "[url \"ssh://git@example.org/\"]\n\tinsteadOf = https://example.org/\n"} {
		if secrets.InSettings([]byte(text)) {
			t.Errorf("%q holds one", text)
		}
	}
}
