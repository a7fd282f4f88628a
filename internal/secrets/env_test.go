package secrets_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/secrets"
)

func TestInEnv(t *testing.T) {
	env := []string{"DB_PASS=hunter2hunter2", "GITHUB_PAT=ghx_0123456789", "DATABASE_URL=postgres://ann:s3cretpw@db/x", "HTTPS_PROXY=http://u:pr0xypass@proxy:3128",
		"PWD=/srv/app2/x", "OLDPWD=/srv/app1", "GOOGLE_APPLICATION_CREDENTIALS=/srv/key1.json", "LOCAL_URL=postgres://postgres:postgres@localhost/x",
		"API_AUTH=$OTHER_VALUE1", "SHORT_KEY=a1", "PATH=/usr/bin1:/bin", "EDITOR=vim", "NO_VALUE_TOKEN"}
	want := []string{"hunter2hunter2", "ghx_0123456789", "s3cretpw", "pr0xypass"}
	if got := secrets.InEnv(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
