#!/bin/sh
# sbom.sh PROGRAM DOCUMENT DATE lists the modules in a program. The document has that date and no serial number, so that the same program has the
# same list. goreleaser calls it.
set -eu
cyclonedx-gomod bin -json -noserial -std -output - "$1" | sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$3\"/" >"$2"
