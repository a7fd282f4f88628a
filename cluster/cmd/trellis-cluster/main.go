// Command trellis-cluster shares the tasks of a repository among several machines by a Temporal server.
package main

import (
	"os"

	"github.com/trellis-tasks/trellis/cluster"
)

func main() { os.Exit(cluster.Main()) }
