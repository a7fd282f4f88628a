// Package compat holds tests that runs which an earlier version began are finished by this one: journals that were
// recorded together with the repository around them (testdata/README.md), and the names and JSON of all activities.
// It has no code of its own.
package compat
