// Command gh is the gh of tests. It is a program of its own, built without the race detector, which takes a tenth of a second to start:
// a delivery calls gh a dozen times.
package main

import "github.com/trellis-tasks/trellis/internal/github/githubtest"

func main() { githubtest.Main() }
