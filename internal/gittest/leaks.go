package gittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests of a package, and fails it when goroutines are left. Those that are about to end are waited for: on a
// machine that stalls that takes longer than goleak gives them.
func VerifyTestMain(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, options}, options...)
}

// patient are the tests of a package, behind which nothing ends any more.
type patient struct {
	*testing.M
	options []goleak.Option
}

func (p patient) Run() int {
	code := p.M.Run()
	for end := time.Now().Add(5 * time.Minute); code == 0 && goleak.Find(p.options...) != nil && time.Now().Before(end); {
	}
	return code
}
