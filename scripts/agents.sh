#!/bin/sh
# Installs the agent programs that the contract suite drives, into .tools/agents, which git ignores.
# Running it again does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."
dir=.tools/agents
want='opencode-ai@1.18 @openai/codex@0.169 @anthropic-ai/claude-code@2.1 @google/gemini-cli@0.61'

if [ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ]; then
	echo "agents: already in $dir"
	exit 0
fi
command -v npm >/dev/null || { echo 'agents: npm is missing: install Node.js 20 or newer' >&2; exit 1; }
mkdir -p "$dir"
[ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
# The install scripts put the native programs in place.
# shellcheck disable=SC2086
npm install --prefix "$dir" --no-audit --no-fund --loglevel=error $want
for program in opencode codex claude gemini; do
	[ -x "$dir/node_modules/.bin/$program" ] || { echo "agents: npm did not install $program" >&2; exit 1; }
done
echo "$want" >"$dir/installed"
echo "agents: installed in $dir"
