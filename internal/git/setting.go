package git

import (
	"context"
	"strings"
)

// UserSetting is what a person's own git settings say, else those of the machine; "" when neither has the key. The
// repository's are not asked: agents may have had a hand in them.
func UserSetting(ctx context.Context, r *Repo, key string) (string, error) {
	for _, whose := range []string{"--global", "--system"} {
		value, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", whose, "--includes", "--get", key}, Accept: []int{1}})
		if value = strings.TrimSpace(value); value != "" || err != nil {
			return value, err
		}
	}
	return "", nil
}
