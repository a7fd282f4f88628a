package secrets

// keywordIndex finds the keywords of rules in a text, all in one pass.
type keywordIndex struct {
	first [1 << 16]uint16 // by the first two bytes of a word: index in lists of the words that begin so
	lists [][]keyword
	rules int
}

type keyword struct {
	text  string
	rules []int
}

func newKeywordIndex(rules []*rule) *keywordIndex {
	w := &keywordIndex{lists: make([][]keyword, 1), rules: len(rules)}
	at := map[string][]int{}
	for i, r := range rules {
		for _, k := range r.Keywords {
			at[k] = append(at[k], i)
		}
	}
	for k, list := range at {
		w.add(k, list)
	}
	return w
}

// add adds a word, one of a single byte under all pairs that begin with it.
func (w *keywordIndex) add(text string, rules []int) {
	switch len(text) {
	case 0:
		return
	case 1:
		for second := range 256 {
			w.addPair(int(text[0])<<8|second, keyword{text, rules})
		}
	default:
		w.addPair(int(text[0])<<8|int(text[1]), keyword{text, rules})
	}
}

func (w *keywordIndex) addPair(pair int, new keyword) {
	if w.first[pair] == 0 {
		w.first[pair] = uint16(len(w.lists))
		w.lists = append(w.lists, nil)
	}
	w.lists[w.first[pair]] = append(w.lists[w.first[pair]], new)
}

// matchingRules reports for each rule whether one of its keywords is in a text, in upper or lower case.
func (w *keywordIndex) matchingRules(text string) []bool {
	near := make([]bool, w.rules)
	for i := 0; i+1 < len(text); i++ {
		for _, k := range w.lists[w.first[int(lowerByte(text[i]))<<8|int(lowerByte(text[i+1]))]] {
			if !hasPrefixFold(text[i:], k.text) {
				continue
			}
			for _, r := range k.rules {
				near[r] = true
			}
		}
	}
	return near
}

func hasPrefixFold(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lowerByte(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
