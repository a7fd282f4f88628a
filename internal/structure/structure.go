// Package structure holds tests of the whole module: which package may import which, which code is flow code and
// thus pure, who opens and writes the files that people and agents can write, and that each promise of docs/ names a
// test that is there. It has no code of its own.
package structure
