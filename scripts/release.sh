#!/bin/sh
# Builds what a release has, into dist, without a network and without publishing anything. It is signed where
# TRELLIS_SECRET_KEY_FILE names a key of minisign.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.tools/release/bin:$PATH
export TRELLIS_RELEASE_KEY="${TRELLIS_RELEASE_KEY:-}" TRELLIS_SECRET_KEY_PASSWORD="${TRELLIS_SECRET_KEY_PASSWORD:-}" TRELLIS_TAP_TOKEN=
skip=docker
if [ -z "${TRELLIS_SECRET_KEY_FILE:-}" ]; then skip=docker,sign; fi
exec goreleaser release --snapshot --clean --skip="$skip"
