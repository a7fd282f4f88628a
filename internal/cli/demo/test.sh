#!/bin/sh
# The tests of greet.sh. Exits 1 when one fails.
failed=0

expect() {
	want=$1
	shift
	got=$(sh greet.sh "$@")
	if [ "$got" = "$want" ]; then
		echo "ok   greet.sh $*"
	else
		echo "FAIL greet.sh $*: got '$got', want '$want'"
		failed=1
	fi
}

expect "Hello, world!"
expect "Hello, Ada!" Ada
exit $failed
