package criteria

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// lowestLevel is the lowest level of a heading; a line in bold, or one that ends in a colon, is one level lower.
const lowestLevel = 6

// heading is a line, or two, that name what follows.
type heading struct {
	level  int // 1 to lowestLevel; lowestLevel+1 for a line in bold, or with a colon at its end
	text   string
	size   int    // number of lines
	rest   string // text after a colon on the same line
	bullet bool   // it is a list item
	indent int
}

// isSentence reports whether a line in bold is a sentence, and not a heading.
func (h heading) isSentence() bool {
	return h.level > lowestLevel && strings.ContainsAny(lastRune(strings.Trim(h.text, "*_ ")), ".!。！")
}

func lastRune(s string) string {
	_, n := utf8.DecodeLastRuneInString(s)
	return s[len(s)-n:]
}

// namesPart reports whether a line in bold names a part of the criteria, and not what comes after them.
func (h heading) namesPart() bool {
	if h.level <= lowestLevel {
		return false
	}
	name := strings.ToLower(strings.Trim(h.text, "*_ "))
	if hasLabel(h.text) || markerOf(name).found() {
		return true
	}
	for _, word := range []string{"scenario", "case", "example", "given", "when", "then", "and", "but", "verify", "level"} {
		if strings.HasPrefix(name, word) {
			return true
		}
	}
	return h.isSentence()
}

// heading returns the heading that begins at index i, and false if there is none.
func (d *document) heading(i int) (heading, bool) {
	l := d.lines[i]
	if l.kind != text {
		return heading{}, false
	}
	if name, level := atx(l.bare); level > 0 {
		return heading{level: level, text: name, size: 1, indent: l.indent}, true
	}
	if level := d.underlineLevel(i); level > 0 {
		return heading{level: level, text: l.bare, size: 2, indent: l.indent}, true
	}
	return d.boldHeading(i)
}

// atx returns the text and the level of a line that begins with number signs, level 0 for any other.
func atx(bare string) (string, int) {
	n := countLeading(bare, '#')
	rest := bare[n:]
	if n == 0 || n > lowestLevel || rest != "" && rest[0] != ' ' && rest[0] != '\t' && relationOf(rest, false) != namesCriteria {
		return "", 0
	}
	return strings.TrimSpace(strings.TrimRight(strings.TrimSpace(rest), "#")), n
}

// underlineLevel returns the level of a heading that is a line with a line of = or - below it, 0 for any other. Below a sentence,
// or below a list, such a line is a break.
func (d *document) underlineLevel(i int) int {
	l := d.lines[i]
	if i+1 == len(d.lines) || l.indent > 3 || markerOf(l.bare).found() || maybeTableRow(l.bare) || i > 0 && d.lines[i-1].kind == text && d.lines[i-1].bare != "" && !d.isHeadingLine(i-1) {
		return 0
	}
	below := d.lines[i+1]
	switch {
	case below.indent > 3 || len(below.bare) < 2 || below.kind != text && below.kind != rule:
	case strings.Trim(below.bare, "=") == "":
		return 1
	case strings.Trim(below.bare, "-") == "" && !strings.ContainsAny(lastRune(l.bare), ".!;。！；"):
		return 2
	}
	return 0
}

// isHeadingLine reports whether the line at index i begins with number signs, or underlines a heading.
func (d *document) isHeadingLine(i int) bool {
	_, level := atx(d.lines[i].bare)
	return level > 0 || strings.Trim(d.lines[i].bare, "=") == ""
}

var boldLine = trellis.Pattern(`^(?:\*\*|__)([^*_]+?)(?:\*\*|__)\s*([:：]?)\s*(.*)$`)

func boldParts(bare string) []string {
	if !strings.HasPrefix(bare, "**") && !strings.HasPrefix(bare, "__") {
		return nil
	}
	return boldLine().FindStringSubmatch(bare)
}

// boldHeading returns the heading in a line in bold, or in one that names criteria and ends in a colon. It may be a list item.
func (d *document) boldHeading(i int) (h heading, ok bool) {
	l := d.lines[i]
	h = heading{level: lowestLevel + 1, size: 1, indent: l.indent}
	bare := l.bare
	if m := markerOf(bare); m.found() && !m.box {
		bare, h.bullet = m.text, true
	}
	if len(bare) > maxHeading {
		return h, false
	}
	colon := false
	if m := boldParts(bare); m != nil {
		h.text, h.rest = m[1], m[3]
		colon = m[2] != "" || strings.ContainsAny(lastRune(strings.TrimSpace(m[1])), ":：")
	} else if name, rest, found := cutColon(bare); found && relationOf(name, true) == namesCriteria && (!d.inParagraph(i) || rest == "" && d.isItem(i+1)) {
		h.text, h.rest, colon = name, rest, true
	} else {
		return h, false
	}
	if h.bullet || h.rest != "" {
		return h, colon && (!h.bullet || relationOf(h.text, false) == namesCriteria)
	}
	return h, true
}

// maxHeading is the maximum length, in bytes, of a line that is taken for a heading without number signs.
const maxHeading = 300

func (d *document) inParagraph(i int) bool {
	return i > 0 && d.lines[i-1].kind == text && !d.isHeadingLine(i-1)
}

func (d *document) isItem(i int) bool {
	return i < len(d.lines) && d.lines[i].kind == text && markerOf(d.lines[i].bare).found()
}

func cutColon(s string) (name, rest string, found bool) {
	i := strings.IndexAny(s, ":：")
	if i < 0 {
		return s, "", false
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+n:]), true
}

// relation says how a heading relates to criteria.
type relation int

const (
	unrelated        relation = iota
	mentionsCriteria          // the heading mentions them
	namesCriteria             // they are below the heading
)

// relationOf says how a heading relates to criteria. It is namesCriteria if it begins with a name of criteria, whatever follows,
// or ends with one. With exactly, only text in brackets may follow the name, as in the title of a document.
func relationOf(heading string, exactly bool) relation {
	if len(heading) > maxHeading {
		return unrelated
	}
	name := withoutNumber(fold(heading))
	for _, p := range names() {
		rest, ok := strings.CutPrefix(name, p.text)
		if !ok || !endsWord(p.text, rest) {
			continue
		}
		rest = strings.TrimLeft(rest, " *_`:：#.-–—")
		if !exactly || rest == "" || strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, "（") {
			return namesCriteria
		}
	}
	found := unrelated
	if exactly {
		return found
	}
	for _, p := range names() {
		i := strings.Index(name, p.text)
		if i < 1 || p.short || !startsWord(name[:i], p.text) || !endsWord(p.text, name[i+len(p.text):]) {
			continue
		}
		found = mentionsCriteria
		if rest := strings.TrimLeft(name[i+len(p.text):], " *_`:："); rest == "" || strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, "（") {
			return namesCriteria
		}
	}
	return found
}

// ordinals match numbers before a heading that are written in letters: IV. B) 五、 （三）
var ordinals = trellis.Pattern(`^(?:[ivx]{1,5}|[a-z]|第?[〇零一二三四五六七八九十百]{1,4}[章节節部分]{0,2})[.)、．）:：\s]`)

// withoutNumber returns a folded heading without what precedes its first word.
func withoutNumber(name string) string {
	signs := func(r rune) bool { return !unicode.IsLetter(r) }
	name = strings.TrimLeftFunc(name, signs)
	return strings.TrimLeftFunc(name[len(ordinals().FindString(name)):], signs)
}

// endsWord reports whether a name ends where rest begins. Chinese, Japanese and Korean put no space between words.
func endsWord(name, rest string) bool {
	last, _ := utf8.DecodeLastRuneInString(name)
	next, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || isUnspaced(last) || !unicode.IsLetter(next)
}

func startsWord(before, name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(before)
	return isUnspaced(first) || !unicode.IsLetter(last)
}

func isUnspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}

// fold makes spellings of a name equal: letter case, accents, ligatures, kinds of spaces and apostrophes.
func fold(s string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(strings.ToLower(s)), " ") {
		if r < utf8.RuneSelf && r != '`' {
			b.WriteRune(r)
			continue
		}
		if unicode.Is(unicode.Mn, r) {
			continue
		}
		if i := strings.IndexRune(accented, r); i >= 0 {
			b.WriteByte(plain[utf8.RuneCountInString(accented[:i])])
			continue
		}
		switch r {
		case '’', '‘', '`', '´':
			r = '\''
		case 'ё':
			r = 'е'
		case 'й':
			r = 'и'
		case 'ї':
			r = 'і'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Letters with accents, and the same letters without them, in the same order.
const (
	accented = "àáâãäåāăąçćčďèéêëēėęěğìíîïīįıłñńňòóôõöøőřśšşșťţțùúûüūůűųýÿžźż"
	plain    = "aaaaaaaaacccdeeeeeeeegiiiiiiilnnnooooooorsssstttuuuuuuuuyyzzz"
)

// name is a name of criteria. A short one counts only at the start of a heading.
type name struct {
	text  string
	short bool
}

// names returns the names of criteria, folded. Longer ones come first, so that the text after a name is found correctly.
var names = sync.OnceValue(func() (list []name) {
	for _, s := range strings.Split(strings.TrimSpace(fullNames), "\n") {
		for _, n := range strings.Split(s, ", ") {
			list = append(list, name{text: fold(n)})
		}
	}
	for _, n := range strings.Split(shortNames, ", ") {
		list = append(list, name{fold(n), true})
	}
	return list
})

const fullNames = `
acceptance criteria, acceptance criterion, acceptance conditions, acceptance checklist, definition of done, done when
akzeptanzkriterien, akzeptanzkriterium, abnahmekriterien, abnahmekriterium, abnahmebedingungen, akzeptanzbedingungen, definition von fertig
critères d'acceptation, critère d'acceptation, critères d'acceptance, conditions d'acceptation, critères de validation, définition de terminé, définition du fini, définition de fini, terminé quand
criterios de aceptación, criterio de aceptación, condiciones de aceptación, definición de hecho, definición de terminado, hecho cuando, terminado cuando
critérios de aceitação, critério de aceitação, critérios de aceite, critério de aceite, condições de aceitação, definição de pronto, pronto quando
criteri di accettazione, criterio di accettazione, condizioni di accettazione, definizione di fatto, fatto quando
criteris d'acceptació, acceptatiecriteria, acceptatiecriterium, klaar wanneer, klaar als
kryteria akceptacji, kryteria odbioru, warunki akceptacji, definicja ukończenia, gotowe gdy
acceptanskriterier, acceptkriterier, accepteringskriterier, akseptkriterier, akseptansekriterier, hyväksymiskriteerit, hyväksymisehdot
akceptační kritéria, kritéria přijetí, akceptačné kritériá, elfogadási kritériumok, elfogadási feltételek, criterii de acceptare, criterii de acceptanță
критерии приёмки, критерии приёма, критерии принятия, условия приёмки, приёмочные критерии, критерии готовности, определение готовности, готово когда, готово, когда
критерії приймання, критерії прийняття, критерії готовності, умови приймання, критерии за приемане, κριτήρια αποδοχής
kabul kriterleri, kabul kriteri, kabul koşulları, kabul ölçütleri, tamamlanma tanımı, bitti tanımı
tiêu chí chấp nhận, tiêu chí nghiệm thu, điều kiện nghiệm thu, kriteria penerimaan, เกณฑ์การยอมรับ, معايير القبول, קריטריוני קבלה, स्वीकृति मानदंड
验收标准, 验收条件, 驗收標準, 驗收條件, 接受标准, 接受條件, 完成的定义, 完成定义, 完成標準, 完成标准, 完成的定義, 完成定義
受け入れ条件, 受け入れ基準, 受入条件, 受入基準, 受入れ条件, 受入れ基準, 検収条件, 検収基準, 完了の定義, 完了条件, 完了基準, 完成の定義
인수 조건, 인수조건, 인수 기준, 인수기준, 수용 기준, 수용 조건, 수락 기준, 수락 조건, 승인 기준, 완료 조건, 완료 기준, 완료의 정의, 완료 정의
`

const shortNames = "acceptance, dod, done when, akzeptanz, abnahme, fertig wenn, fertig, wenn, aceptación, aceitação, accettazione, acceptatie, приёмка, 验收, 驗收, 受け入れ, 受入, 検収"
