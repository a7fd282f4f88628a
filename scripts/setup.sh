#!/bin/sh
# Gets ready what the tests need and can't bring along: checks git, downloads the modules, installs bubblewrap, gh, zsh, fish,
# bash-completion, tmux, less, groff, mandoc, notify-send and a browser (as root, where there is apt), the agent programs, pnpm and axe-core. Running it again costs next to nothing. What is optional and can't be
# had is left out with a line that says why, and the tests that need it skip; where CI is set that is a failure.
set -eu
cd "$(dirname "$0")/.."

missing() {
	echo "setup: $1" >&2
	if [ -n "${CI:-}" ]; then exit 1; fi
}

command -v git >/dev/null || { echo 'setup: git is missing: install git 2.34 or newer' >&2; exit 1; }
"${GO:-go}" mod download

# package PROGRAM NAME WHAT installs a package of the system, as root and where there is apt.
package() {
	if command -v "$1" >/dev/null; then
		:
	elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		missing "no $1, so the tests of $3 skip: sudo apt install $2, or what your system calls it"
	elif ! { apt-get install -qq -y "$2" || { apt-get update -qq && apt-get install -qq -y "$2"; }; } </dev/null >/dev/null; then
		missing "$2 could not be installed, so the tests of $3 skip"
	fi
}

if [ "$(uname -s)" = Linux ]; then package bwrap bubblewrap 'the sandbox'; fi
package gh gh 'pull requests with the real gh'
package zsh zsh 'completion in zsh'
package fish fish 'completion in fish'
[ -e /usr/share/bash-completion/bash_completion ] || package no-program-of-it bash-completion 'completion that bash loads by itself'
package tmux tmux 'what a terminal shows'
package groff groff-base 'pages of the manual as man shows them'
package mandoc mandoc 'faults in pages of the manual'
package less less 'diffs in a pager'
if [ "$(uname -s)" = Linux ]; then package notify-send libnotify-bin 'notifications on a screen'; package dbus-daemon dbus-daemon 'notifications on a screen'; fi
if [ "$(uname -s)" = Linux ]; then package chromium-headless-shell chromium-headless-shell 'the board in a browser'; fi

# pnpm, by which one of the projects of a newcomer is set up, is installed below .tools, which git ignores.
pnpm() {
	want=pnpm@10.34 dir=.tools/pnpm
	if [ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ]; then return; fi
	mkdir -p "$dir"
	[ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
	npm install --prefix "$dir" --no-audit --no-fund --loglevel=error "$want" && echo "$want" >"$dir/installed"
}

if command -v npm >/dev/null && ! pnpm </dev/null; then
	missing 'pnpm could not be installed, so the test with a pnpm workspace skips'
fi

if [ ! -x scripts/agents.sh ]; then
	:
elif ! command -v npm >/dev/null; then
	missing 'no npm, so pnpm and the agent programs are not installed and their tests skip: install Node.js 20 or newer'
elif ! scripts/agents.sh </dev/null; then
	missing 'the agent programs could not be installed, so their tests skip'
fi

if ! command -v npm >/dev/null; then
	missing 'no npm, so axe-core is not installed and the check of the board with it skips: install Node.js 20 or newer'
elif ! scripts/axe.sh </dev/null; then
	missing 'axe-core could not be installed, so the check of the board with it skips'
fi
