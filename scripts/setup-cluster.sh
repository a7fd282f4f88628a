#!/bin/sh
# Builds the Temporal development server, which the tests of cluster/ run against, into .tools/temporal, which git ignores. It takes minutes of
# both processors and 2 GB of memory, so make setup leaves it out. Running this again does nothing when it is there.
set -eu
cd "$(dirname "$0")/.."
want=v1.5.1

if [ "$(cat .tools/temporal.version 2>/dev/null)" = "$want" ] && [ -x .tools/temporal ]; then
	echo "cluster: the Temporal server $want is in .tools"
	exit 0
fi
mkdir -p .tools
GOBIN="$(pwd)/.tools" GOFLAGS= nice -n 10 "${GO:-go}" install -trimpath -ldflags '-s -w' "github.com/temporalio/cli/cmd/temporal@$want"
echo "$want" >.tools/temporal.version
echo "cluster: the Temporal server $want is in .tools"
