#!/bin/sh
# golangci-lint when .tools/bin has it, otherwise what comes with Go.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}

if [ -x .tools/bin/golangci-lint ]; then
	exec .tools/bin/golangci-lint run ./...
fi
echo "lint: gofmt and vet only; for more: GOBIN=$PWD/.tools/bin $go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0"
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "lint: run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
"$go" vet ./...
GOOS=darwin "$go" vet ./...
