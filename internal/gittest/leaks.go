package gittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trellis-tasks/trellis/internal/patience"
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
	for end := patience.New(15 * time.Second); code == 0 && goleak.Find(p.options...) != nil && !end.Over(); {
	}
	return code
}
