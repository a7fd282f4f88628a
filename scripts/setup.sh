#!/bin/sh
# Gets ready what the tests need and can't bring along: checks git, downloads the modules, installs the
# agent programs. Running it again costs next to nothing. What is optional and can't be had is left out
# with a line that says why, and the tests that need it skip; where CI is set that is a failure.
set -eu
cd "$(dirname "$0")/.."

missing() {
	echo "setup: $1" >&2
	if [ -n "${CI:-}" ]; then exit 1; fi
}

command -v git >/dev/null || { echo 'setup: git is missing: install git 2.34 or newer' >&2; exit 1; }
"${GO:-go}" mod download

if [ ! -x scripts/agents.sh ]; then
	:
elif ! command -v npm >/dev/null; then
	missing 'no npm, so the agent programs are not installed and their tests skip: install Node.js 20 or newer'
elif ! scripts/agents.sh </dev/null; then
	missing 'the agent programs could not be installed, so their tests skip'
fi
