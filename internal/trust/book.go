package trust

// book is what the ledger says about one repository: the latest line of each item.
type book struct {
	how            map[string]How    // by id of an item or commit; without Stranger
	foreignEntries map[string]Entry  // lines with Stranger, by subject and id
	settings       map[string]string // the id that was trusted last, by the name of the setting
	commits        map[string]bool   // by id: whether it is that of a commit, and not of an item
	trunk          string

	lines   int // how many lines of the ledger were read
	reloads int // see Ledger.since
}

func newBook() *book {
	return &book{how: map[string]How{}, foreignEntries: map[string]Entry{}, settings: map[string]string{}, commits: map[string]bool{}}
}

func (b *book) apply(e Entry) {
	switch e.How {
	case Trunk:
		b.trunk = e.ID
	case Stranger:
		b.foreignEntries[e.Subject+"\x00"+e.ID] = e
	case Made, Agreed, Branch, Approved, Commit:
		b.how[e.ID] = e.How
		b.commits[e.ID] = e.Kind == CommitKind
		if e.Setting != "" {
			b.settings[e.Setting] = e.ID
		}
	case Revoked:
		b.how[e.ID] = Revoked
	}
}

// trusts reports whether the ledger alone says that an item is trusted.
func (b *book) trusts(i Item) bool {
	id := i.ID()
	how, known := b.how[id]
	if !known || how == Revoked {
		return false
	}
	name := i.settingName()
	return name == "" || b.settings[name] == id
}

// foreignEntry returns what was found out about an item that is from somebody else.
func (b *book) foreignEntry(subject string, i Item) (Entry, bool) {
	e, ok := b.foreignEntries[subject+"\x00"+i.ID()]
	return e, ok
}

// isForeign reports whether an item is known to be from somebody else, or its trust was revoked.
func (b *book) isForeign(subject string, i Item) bool {
	_, strange := b.foreignEntry(subject, i)
	return strange || b.how[i.ID()] == Revoked
}
