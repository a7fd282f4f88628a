#!/usr/bin/env bash
# What the GitHub Action does in a checkout: plans what is asked for, runs what is ready, and tells the job of both. Its inputs are in
# the environment, its outputs in $GITHUB_OUTPUT, and the reports of the tasks in $GITHUB_STEP_SUMMARY.
set -uo pipefail

if [ "${INPUT_TRUST_CHECKOUT:-false}" = true ]; then export TRELLIS_TRUST=checkout; fi
begun=$(mktemp)
trap 'rm -f "$begun"' EXIT

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }
summary() { printf '%s\n' "$@" >>"$GITHUB_STEP_SUMMARY"; }

# plan plans what the inputs ask for; its last line is the directory.
plan() {
	local said
	said=$(trellis plan "$@" --plain)
	plan_exit=$?
	task=$(tail -n 1 <<<"$said")
	output plan-exit "$plan_exit"
	output task "$task"
	rejected=$(git rev-parse --show-toplevel)/$task/REJECTED.md # the task is told from there
	if [ -n "$task" ] && [ -f "$rejected" ]; then
		summary '## The requirement was rejected' '' "$(cat "$rejected")" ''
	elif [ "$plan_exit" != 0 ]; then
		summary "## Planning ended with exit code $plan_exit" '' "[What that means](https://github.com/trellis-tasks/trellis#exit-codes)." ''
	fi
}

plan_exit=0 run_exit=0 task=
if [ -n "${INPUT_REQUIREMENT:-}" ]; then
	plan --requirement "$INPUT_REQUIREMENT"
elif [ -n "${INPUT_REQUIREMENT_FILE:-}" ]; then
	plan --requirement-file "$INPUT_REQUIREMENT_FILE"
elif [ -n "${INPUT_ISSUE:-}" ]; then
	plan --from-issue "$INPUT_ISSUE"
fi

if [ "$plan_exit" = 0 ] && [ "${INPUT_RUN:-true}" = true ]; then
	trellis watch --once --plain --parallel "${INPUT_PARALLEL:-1}"
	run_exit=$?
	output run-exit "$run_exit"
	summary "## Trellis ended with exit code $run_exit" ''
	while IFS= read -r -d '' report; do
		summary "$(cat "$report")" ''
	done < <(find "$(git rev-parse --show-toplevel)/.trellis/tasks" -name report.md -newer "$begun" -print0 | sort -z)
fi

if [ "$plan_exit" != 0 ]; then exit "$plan_exit"; fi
exit "$run_exit"
