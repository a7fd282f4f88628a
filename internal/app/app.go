// Package app is the application: what a person can ask of Trellis in a project and what there is to see, as typed
// requests, results, errors and events. The command line and every other face call it, and it calls what does the work.
// Nothing here prints, parses flags or knows of exit codes.
package app
