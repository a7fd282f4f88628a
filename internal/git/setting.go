package git

import (
	"context"
	"strings"
)

// UserSetting returns a git setting of the user, or else of the machine; "" if neither has the key. The repository's settings are
// ignored, since agents may have changed them.
func UserSetting(ctx context.Context, r *Repo, key string) (string, error) {
	for _, whose := range []string{"--global", "--system"} {
		value, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", whose, "--includes", "--get", key}, Accept: []int{1}})
		if value = strings.TrimSpace(value); value != "" || err != nil {
			return value, err
		}
	}
	return "", nil
}
