package trellis

import "strings"

// IsMisspelling reports whether word and other differ, apart from capitals and separators, by one letter at most.
func IsMisspelling(word, other string) bool {
	return editDistance(foldName(word), foldName(other)) <= 1
}

// foldName returns a word in lower case without the separators of its parts, as of depends_on and dependsOn.
func foldName(word string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(word))
}

// Nearest returns the candidate that differs from word only in capitals and separators, else the one with the fewest edits. It
// returns "" if each is more than a third of its length away and fails [IsMisspelling], or shares no letter with word, as b and a.
func Nearest(word string, candidates []string) string {
	best, at := "", 0
	for _, c := range candidates {
		if foldName(word) == foldName(c) {
			return c
		}
		d := editDistance(word, c)
		most := max(len(word), len(c))
		if (d <= max(1, most/3) || IsMisspelling(word, c)) && d < most && (best == "" || d < at) {
			best, at = c, d
		}
	}
	return best
}

// NearestHint returns the question whether the nearest candidate was meant; "" if none is near.
func NearestHint(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// editDistance returns how many bytes must be inserted, deleted, replaced or swapped with their neighbour to turn a into b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
