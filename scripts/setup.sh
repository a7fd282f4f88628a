#!/bin/sh
# Gets ready what the tests need and can't bring along: checks git, downloads the modules, installs
# bubblewrap (as root, where there is apt) and the agent programs. Running it again costs next to nothing. What is optional and can't be had is left out
# with a line that says why, and the tests that need it skip; where CI is set that is a failure.
set -eu
cd "$(dirname "$0")/.."

missing() {
	echo "setup: $1" >&2
	if [ -n "${CI:-}" ]; then exit 1; fi
}

command -v git >/dev/null || { echo 'setup: git is missing: install git 2.34 or newer' >&2; exit 1; }
"${GO:-go}" mod download

if [ "$(uname -s)" != Linux ] || command -v bwrap >/dev/null; then
	:
elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	missing 'no bubblewrap, so the tests of the sandbox skip: sudo apt install bubblewrap, or what your system calls it'
elif ! { apt-get install -qq -y bubblewrap || { apt-get update -qq && apt-get install -qq -y bubblewrap; }; } </dev/null >/dev/null; then
	missing 'bubblewrap could not be installed, so the tests of the sandbox skip'
fi

if [ ! -x scripts/agents.sh ]; then
	:
elif ! command -v npm >/dev/null; then
	missing 'no npm, so the agent programs are not installed and their tests skip: install Node.js 20 or newer'
elif ! scripts/agents.sh </dev/null; then
	missing 'the agent programs could not be installed, so their tests skip'
fi
