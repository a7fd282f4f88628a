// Package app is the application: what a person can ask of Trellis in a project and what there is to see, as typed requests,
// results, errors and events. The command line and every other front end call it, and it calls the packages that do the work.
// Nothing here prints, parses flags or knows exit codes.
package app
