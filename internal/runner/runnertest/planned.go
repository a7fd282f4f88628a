package runnertest

import (
	"strings"
)

// ByPlan returns a script whose implement adds --bye to greet.sh, after running line.
func ByPlan(line string) string {
	mend := strings.TrimPrefix(Mend, "[{")
	return "roles:\n  implement: [{run: [\"" + line + "\"], " + mend + "\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  " + Met + "\n"
}
