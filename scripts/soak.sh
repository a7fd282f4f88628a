#!/bin/sh
# Kills trellis at random for as long as asked, and beside that lets people edit, undo, stash, check out, clean, pull and give
# orders beside a watcher, and prints what was lost and what was done twice: soak.sh [FOR [SEED]].
# With FULL=1 every kill, fault and torn journal of the harness is tried first, and so are hundreds of tasks at once,
# every fault of git, a repository of 20,000 files, what is hostile in each place, every attack with each mode of the sandbox, all
# that is tried with the agents' programs that are installed, kills at each moment among it, every row of each table of which
# `make test` tries a sample, and 200 tasks that three machines share while they are killed, with a server (make setup-cluster) and without.
set -eu
cd "$(dirname "$0")/../faults"
for=${1:-10m} seed=${2:-$(date +%s)}
export GORACE=atexit_sleep_ms=0
if [ -n "${FULL:-}" ]; then
	FAULTS_FULL=1 ${GO:-go} test -count=1 -timeout 0
	# All packages whose tests ask for it, one after the other: some hold how soon something is there.
	asks='{{$p := .ImportPath}}{{range .TestImports}}{{if eq . "github.com/trellis-tasks/trellis/internal/soak"}}{{println $p}}{{end}}{{end}}'
	(cd .. && list=$(${GO:-go} list -f "$asks$(printf %s "$asks" | sed s/TestImports/XTestImports/)" ./...) &&
		TRELLIS_SOAK=1 ${GO:-go} test -count=1 -timeout 0 -p 1 $list)
	(cd ../cluster && TRELLIS_SOAK=1 ${GO:-go} test -count=1 -timeout 0 -run '^TestStorm$' .)
fi
exec ${GO:-go} test -count=1 -timeout 0 -run "^Test(Soak|People)$" -args -soak "$for" -seed "$seed"
