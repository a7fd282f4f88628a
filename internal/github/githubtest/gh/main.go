// Command gh is the fake gh of tests. It is a separate program, built without the race detector, which would add a tenth of a
// second to each start: a delivery calls gh a dozen times.
package main

import "github.com/trellis-tasks/trellis/internal/github/githubtest"

func main() { githubtest.Main() }
