// Package impure does what flow code must not do. The purity test reads it and compares.
package impure

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

var counter int

type clock interface{ Tick() }

func pure(m map[string]int, c clock) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%d\n", k, m[k])
	}
	d := time.Duration(counter) * time.Second
	local := counter
	local++
	c.Tick()
	return b.String() + d.String() + fmt.Sprint(local, effectName)
}

func impure(ctx context.Context, m map[string]int) error {
	go pure(m, nil)    // want: a goroutine
	for k := range m { // want: the order of a map
		_ = k
	}
	for k := range maps.Keys(m) { // want: call of maps.Keys
		_ = k
	}
	ch := make(chan int, 1) // want: a channel
	ch <- 1                 // want: a channel
	<-ch                    // want: a channel
	for range ch {          // want: a channel
		break
	}
	select { // want: a channel
	default:
	}
	counter++                                   // want: a change of package variable counter
	fmt.Println("x")                            // want: call of fmt.Println
	fmt.Fprint(os.Stdout)                       // want: call of fmt.Fprint; use of os.Stdout
	fmt.Fprint(os.Stderr, time.Now().Unix())    // want: call of fmt.Fprint; use of os.Stderr; call of time.Now
	time.Sleep(1)                               // want: call of time.Sleep
	println()                                   // want: call of println
	if _, err := os.ReadFile("x"); err != nil { // want: call of os.ReadFile
		return err
	}
	effect()          // want: call of the effect effect
	<-ctx.Done()      // want: a channel; call of context.Context.Done
	later := time.Now // want: call of time.Now
	_ = later
	return ctx.Err() // want: call of context.Context.Err
}
