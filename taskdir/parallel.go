package taskdir

import (
	"runtime"
	"sync"
)

// ParallelMap returns the results of f for items, in their order. f is called from as many goroutines as there are processors.
func ParallelMap[In, Out any](items []In, f func(In) Out) []Out {
	results := make([]Out, len(items))
	var wait sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(items))
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(items); i += workers {
				results[i] = f(items[i])
			}
		})
	}
	wait.Wait()
	return results
}
