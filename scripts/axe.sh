#!/bin/sh
# Puts axe-core, which finds what bars people from a page, into .tools/axe, which git ignores. The test that runs it knows
# its sum. Running this again does nothing when it is there.
set -eu
cd "$(dirname "$0")/.."
dir=.tools/axe
want='axe-core@4.14.1'

if [ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ]; then
	echo "axe: already in $dir"
	exit 0
fi
command -v npm >/dev/null || { echo 'axe: npm is missing: install Node.js 20 or newer' >&2; exit 1; }
mkdir -p "$dir"
[ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund --loglevel=error "$want"
echo "$want" >"$dir/installed"
echo "axe: installed in $dir"
