#!/bin/sh
# Gets ready what the tests need and can't bring along: checks git, downloads the modules, installs bubblewrap, gh, zsh, fish,
# bash-completion, tmux, less, groff, mandoc, notify-send and a browser (as root, where there is apt), the agent programs, pnpm and
# axe-core. Running it again costs next to nothing. What is optional and can't be had is left out with a line that says why, and the
# tests that need it skip; where CI is set that is a failure.
set -eu
cd "$(dirname "$0")/.."

missing() {
	echo "setup: $1" >&2
	if [ -n "${CI:-}" ]; then exit 1; fi
}

command -v git >/dev/null || { echo 'setup: git is missing: install git 2.34 or newer' >&2; exit 1; }

# pnpm, by which one of the projects of a newcomer is set up, is installed below .tools, which git ignores.
pnpm() {
	want=pnpm@10.34 dir=.tools/pnpm
	if [ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ]; then return; fi
	mkdir -p "$dir"
	[ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
	npm install --prefix "$dir" --no-audit --no-fund --loglevel=error "$want" && echo "$want" >"$dir/installed"
}

# of_npm installs what npm has. It mostly waits for the network, so it runs beside the rest.
of_npm() {
	if ! command -v npm >/dev/null; then
		missing 'no npm, so pnpm, the agent programs and axe-core are not installed and their tests skip: install Node.js 20 or newer'
		return
	fi
	pnpm </dev/null || missing 'pnpm could not be installed, so the test with a pnpm workspace skips'
	if [ -x scripts/agents.sh ]; then
		scripts/agents.sh </dev/null || missing 'the agent programs could not be installed, so their tests skip'
	fi
	scripts/axe.sh </dev/null || missing 'axe-core could not be installed, so the check of the board with it skips'
}
of_npm &
npm=$!
trap 'wait' EXIT # whatever ends this, nothing of it goes on afterwards

"${GO:-go}" mod download

# wanted PROGRAM NAME WHAT notes that a package of the system is to be installed where PROGRAM is missing.
wants=
wanted() {
	if command -v "$1" >/dev/null; then
		:
	elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		missing "no $1, so the tests of $3 skip: sudo apt install $2, or what your system calls it"
	else
		wants="$wants $2"
	fi
}

wanted gh gh 'pull requests with the real gh'
wanted zsh zsh 'completion in zsh'
wanted fish fish 'completion in fish'
[ -e /usr/share/bash-completion/bash_completion ] || wanted no-program-of-it bash-completion 'completion that bash loads by itself'
wanted tmux tmux 'what a terminal shows'
wanted groff groff-base 'pages of the manual as man shows them'
wanted mandoc mandoc 'faults in pages of the manual'
wanted less less 'diffs in a pager'
if [ "$(uname -s)" = Linux ]; then
	wanted bwrap bubblewrap 'the sandbox'
	wanted notify-send libnotify-bin 'notifications on a screen'
	wanted dbus-daemon dbus-daemon 'notifications on a screen'
	wanted chromium-headless-shell 'chromium-headless-shell fonts-liberation' 'the board in a browser'
fi

# of_apt PACKAGE... installs packages of the system, without what they recommend: for the browser that is a desktop.
of_apt() {
	apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null
}

if [ -n "$wants" ]; then
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086
	if ! of_apt $wants 2>/dev/null && ! { apt-get update -qq && of_apt $wants; } </dev/null >/dev/null; then
		# One that can't be had keeps none of the others away.
		for name in $wants; do
			of_apt "$name" || missing "$name could not be installed, so the tests that need it skip"
		done
	fi
fi
wait "$npm"
