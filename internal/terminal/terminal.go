// Package terminal shows people what is known of tasks and runs: tables, the lines of a log, differences, and what
// happens while it happens.
package terminal
