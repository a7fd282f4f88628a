package runnertest

import (
	"strings"
)

// ByPlan is a script whose implement does what a plan says, after running a line of its own.
func ByPlan(line string) string {
	mend := strings.TrimPrefix(Mend, "[{")
	return "roles:\n  implement: [{run: [\"" + line + "\"], " + mend + "\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  " + Met + "\n"
}
