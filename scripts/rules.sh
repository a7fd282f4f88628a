#!/bin/sh
# Brings the newest rules of gitleaks, which tell what a secret looks like, and their license, as they are.
# With an argument, those of that version: scripts/rules.sh v8.30.1
# The tests of internal/secrets then say whether they can be used; look at the diff before it is committed.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && "$go" mod init scratch 2>/dev/null)
found=$(cd "$scratch" && "$go" mod download -json "github.com/zricethezav/gitleaks/v8@${1:-latest}")
dir=$(echo "$found" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
to=internal/secrets/gitleaks
for file in config/gitleaks.toml LICENSE; do
	cat "$dir/$file" >"$to/$(basename "$file")"
done
echo "$found" | sed -n 's/.*"Version": "\(.*\)".*/rules of gitleaks \1/p'
"$go" test ./internal/secrets
