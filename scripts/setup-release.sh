#!/bin/sh
# Gets ready what releases and `make test-release` need: goreleaser, actionlint and cyclonedx-gomod in .tools/release/bin, and, as root
# where there is apt, the tools of packages, minisign and mkdocs-material. Running it again costs next to nothing.
set -eu
cd "$(dirname "$0")/.."
bin=$PWD/.tools/release/bin

# program MODULE NAME VERSION installs a Go program.
program() {
	if [ "$("${GO:-go}" version -m "$bin/$2" 2>/dev/null | awk '$1 == "mod" { print $3 }')" != "$3" ]; then
		(cd / && GOFLAGS=-trimpath GOBIN=$bin "${GO:-go}" install "$1@$3")
	fi
}
program github.com/goreleaser/goreleaser/v2 goreleaser v2.15.0
program github.com/rhysd/actionlint/cmd/actionlint actionlint v1.7.12
program github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod cyclonedx-gomod v1.9.0

missing=
for pair in dpkg:dpkg rpm:rpm lintian:lintian shellcheck:shellcheck minisign:minisign mkdocs:mkdocs-material mandoc:mandoc groff:groff-base; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
if [ -z "$missing" ]; then
	:
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	# shellcheck disable=SC2086
	apt-get install -qq -y --no-install-recommends $missing </dev/null >/dev/null
else
	echo "setup-release: next: sudo apt install$missing" >&2
	exit 1
fi
