#!/bin/sh
# Runs every fuzz target of the project for FUZZTIME (60s), one after the other.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}

for package in $("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	for target in $("$go" test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 20x -fuzztime "${FUZZTIME:-60s}" "$package"
	done
done
