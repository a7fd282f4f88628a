package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
)

// judgedBasis is what the verdict on a subject's foreign items depends on: git is not searched again while that is the same.
type judgedBasis struct{ tip string }

// findOrigins finds out where the unknown items of a subject are from, stores that, and adds those that are foreign to v.
func (j *Judge) findOrigins(ctx context.Context, v *Verdict, s Subject, disk []fileVersion, b *book, unknown []Item) error {
	t, err := j.trunk(ctx, b)
	if err != nil {
		return err
	}
	h := &history{judge: j, subject: s, disk: disk, trunk: t, itemIDs: map[blobAt][]string{}}
	if before, ok := j.judged[s.Name]; !ok || before.tip != t.tip || slices.ContainsFunc(unknown, func(i Item) bool { return !b.isForeign(s.Name, i) }) {
		found, err := h.search(ctx, b, unknown)
		if err != nil {
			return fmt.Errorf("looking up the history of %s in git: %w", s.Name, err)
		}
		v.Unsaved = j.storeFound(b, found)
		if j.judged == nil {
			j.judged = map[string]judgedBasis{}
		}
		j.judged[s.Name] = judgedBasis{t.tip}
	}
	for _, i := range unknown {
		if !b.trusts(i) {
			e, _ := b.foreignEntry(s.Name, i)
			v.Foreign = append(v.Foreign, Foreign{Item: i, Commit: e.Commit, Author: e.Author, Date: e.Date})
		}
	}
	return nil
}

// storeFound stores what was found and adds it to the book, even if storing it fails.
func (j *Judge) storeFound(b *book, found []Entry) error {
	err := j.addLocked(found)
	if err != nil {
		for _, e := range found {
			b.apply(e)
		}
		return err
	}
	_, err = j.book()
	return err
}

// history is what git knows about the files of a subject.
type history struct {
	judge   *Judge
	subject Subject
	disk    []fileVersion
	trunk   trunk
	itemIDs map[blobAt][]string // ids of the items in a version of a file
	origins reflogOrigins
	line    *lineage // set together with origins

	stored map[string]bool // blobs of the files in disk that the repository has; nil: not looked up yet
}

// blobAt is a version of a file: a blob at a path, "" for none.
type blobAt struct{ path, blob string }

// search judges items that the ledger does not trust. It asks git as little as possible: the trusted branch has most of them.
func (h *history) search(ctx context.Context, b *book, unknown []Item) (found []Entry, err error) {
	rest := slices.DeleteFunc(slices.Clone(unknown), func(i Item) bool { return b.how[i.ID()] == Revoked })
	if rest, err = h.withoutLinked(ctx, rest, &found); err != nil {
		return nil, err
	}
	if rest, err = h.withoutTrunkItems(ctx, rest, &found); err != nil || len(rest) == 0 {
		return found, err
	}
	rest = slices.DeleteFunc(rest, func(i Item) bool { return b.isForeign(h.subject.Name, i) })
	if len(rest) == 0 {
		return found, nil
	}
	return found, h.judgeByCommits(ctx, b, rest, &found)
}

// withoutTrunkItems takes out the items that the same file at the tip of the trusted branch has, which are trusted.
func (h *history) withoutTrunkItems(ctx context.Context, items []Item, found *[]Entry) (rest []Item, err error) {
	if h.trunk.tip == "" || len(items) == 0 {
		return items, nil
	}
	paths := pathsOf(items)
	blobs, err := h.judge.Repo.Provenance().BlobsAt(ctx, h.trunk.tip, paths...)
	if err != nil {
		return nil, err
	}
	var versions []blobAt
	for _, p := range paths {
		versions = append(versions, blobAt{p, blobs[p]})
	}
	if err := h.load(ctx, versions); err != nil {
		return nil, err
	}
	for _, i := range items {
		if h.has(blobAt{i.File, blobs[i.File]}, i) {
			*found = append(*found, entry(Branch, h.subject.Name, i))
		} else {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// judgeByCommits judges items by the commits that the trusted branch does not have: by who brought them.
func (h *history) judgeByCommits(ctx context.Context, b *book, items []Item, found *[]Entry) (err error) {
	if h.origins, err = h.judge.reflogOrigins(ctx, h.trunk); err != nil {
		return err
	}
	reach := git.Reach{All: true}
	if reach.Tips, err = h.judge.Repo.Provenance().FormerCommits(); err != nil {
		return err
	}
	if h.trunk.tip != "" {
		reach.Not = []string{h.trunk.tip}
	}
	touches, err := h.touches(ctx, reach, pathsOf(items))
	if err != nil {
		return err
	}
	h.line = h.newLineage(b, touches)
	converted, err := h.useIndexed(ctx, items)
	if err != nil {
		return err
	}
	var strange []Entry
	var guilty []Item
	for _, i := range items {
		by, foreign, err := h.broughtBy(ctx, i.File, i.ID())
		if err == nil && len(by) == 0 {
			by, foreign, err = h.copiedFrom(ctx, reach, i)
		}
		switch {
		case err != nil:
			return err
		case !foreign && len(by) == 0 && converted[i.File]: // which part of the file git wrote is unknown
			guilty, strange = append(guilty, i), append(strange, h.foreignEntry(i, nil))
		case !foreign && len(by) == 0 && !h.isStillOnDisk(i): // not committed and gone: who wrote it can't be found out any more
		case !foreign:
			*found = append(*found, entry(Made, h.subject.Name, i))
		default:
			guilty, strange = append(guilty, i), append(strange, h.foreignEntry(i, by))
		}
	}
	return h.recordByTrunkHistory(ctx, guilty, strange, found)
}

// useIndexed takes the items on the disk of a file that nobody changed for those of its blob in the index, since git may write
// other bytes than those that were committed. It returns the files for which git does that and which somebody did change.
func (h *history) useIndexed(ctx context.Context, items []Item) (converted map[string]bool, err error) {
	paths := pathsOf(items)
	indexed, err := h.judge.Repo.Provenance().Indexed(ctx, paths...)
	if err != nil {
		return nil, err
	}
	var modified map[string]bool
	if len(indexed) > 0 {
		if modified, err = h.judge.Repo.Provenance().Modified(ctx, paths...); err != nil {
			return nil, err
		}
	}
	if converted, err = h.judge.Repo.Provenance().Converted(ctx, paths...); err != nil {
		return nil, err
	}
	stands := map[string]bool{}
	for _, p := range paths {
		stands[p] = h.holdsForText(p, converted[p])
	}
	for _, i := range items {
		if blob := indexed[i.File]; blob != "" && !modified[i.File] && stands[i.File] {
			delete(converted, i.File)
			at := blobAt{i.File, blob}
			h.itemIDs[at] = append(h.itemIDs[at], i.ID())
		}
	}
	return converted, nil
}

// holdsForText reports whether what git says about a file on the disk also holds for the text of the file that was read before. If
// git writes the bytes that were committed, the answer is not needed, and false.
func (h *history) holdsForText(file string, converted bool) bool {
	data, before := h.subject.Texts[file]
	if !before {
		return true
	}
	now, err := h.judge.readFile(file, false)
	return err == nil && converted && bytes.Equal(now, data)
}

// isStillOnDisk reports whether a file that was read before still has an item on the disk.
func (h *history) isStillOnDisk(i Item) bool {
	if _, before := h.subject.Texts[i.File]; !before {
		return true
	}
	data, err := h.judge.readFile(i.File, false)
	if err != nil {
		return false
	}
	items, _ := h.subject.Read(i.File, data)
	return slices.ContainsFunc(items, func(now Item) bool { return now.ID() == i.ID() })
}

// withoutLinked takes out the items of files that a link leads to, if link or file came by git, and of files in a repository
// within the checkout, a submodule: whoever changes one changes what the other says, so only a person can agree to them.
func (h *history) withoutLinked(ctx context.Context, items []Item, found *[]Entry) (rest []Item, err error) {
	for _, i := range items {
		n := slices.IndexFunc(h.disk, func(f fileVersion) bool { return f.path == i.File })
		switch {
		case n >= 0 && h.isInNestedRepo(i.File):
			*found = append(*found, h.foreignEntry(i, nil))
			continue
		case n < 0 || h.disk[n].real == "":
			rest = append(rest, i)
			continue
		}
		ways := []string{h.disk[n].real}
		for at := i.File; at != "."; at = path.Dir(at) {
			ways = append(ways, at)
		}
		indexed, err := h.judge.Repo.Provenance().Indexed(ctx, ways...)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ways, func(way string) bool { return indexed[way] != "" }) {
			*found = append(*found, h.foreignEntry(i, nil))
		} else {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// isInNestedRepo reports whether a file is in a separate repository below the main checkout.
func (h *history) isInNestedRepo(file string) bool {
	for at := path.Dir(file); at != "."; at = path.Dir(at) {
		if _, err := os.Lstat(filepath.Join(h.judge.Repo.Main, filepath.FromSlash(at), ".git")); err == nil {
			return true
		}
	}
	return false
}

// broughtBy returns the commits that brought an item into a file, and whether they make it foreign: one of them is from
// elsewhere, or git re-created or merged all of them from work that may be others'.
func (h *history) broughtBy(ctx context.Context, file, id string) (by []git.Touch, foreign bool, err error) {
	ours := false
	for _, group := range grouped(h.line.newer, file) {
		if !h.brings(group, id) {
			continue
		}
		switch h.origins[group[0].Commit] {
		case committedHere:
			ours = true
		case fromElsewhere:
			foreign = true
			by = append(by, group[0])
			continue
		case recreated, mergedByGit:
			own, err := h.line.isOurs(ctx, group)
			if err != nil {
				return nil, false, err
			}
			ours = ours || own
		}
		by = append([]git.Touch{group[0]}, by...) // foreign ones last, and the oldest of them last of all
	}
	return by, foreign || len(by) > 0 && !ours, nil
}

// brings reports whether a commit has an item that none of its parents has.
func (h *history) brings(group []git.Touch, id string) bool {
	if len(group) < max(group[0].Parents, 1) { // one of the parents has the same file
		return false
	}
	return h.hasID(blobAt{group[0].Path, group[0].New}, id) &&
		!slices.ContainsFunc(group, func(t git.Touch) bool { return h.hasID(blobAt{t.Path, t.Old}, id) })
}

// grouped returns the changes of one path, grouped by commit.
func grouped(touches []git.Touch, path string) (groups [][]git.Touch) {
	for _, t := range touches {
		if t.Path != path {
			continue
		}
		if n := len(groups) - 1; n >= 0 && groups[n][0].Commit == t.Commit {
			groups[n] = append(groups[n], t)
		} else {
			groups = append(groups, []git.Touch{t})
		}
	}
	return groups
}

// copiedFrom looks for the whole file of an item at other paths: a directory that somebody renamed still belongs to whoever wrote
// it. Lists of files are alike by chance, and are left out.
func (h *history) copiedFrom(ctx context.Context, reach git.Reach, i Item) (by []git.Touch, foreign bool, err error) {
	n := slices.IndexFunc(h.disk, func(f fileVersion) bool { return f.path == i.File })
	if n < 0 || len(h.disk[n].data) == 0 || path.Ext(i.File) == ".jsonl" {
		return nil, false, nil
	}
	blob, err := h.storedBlob(ctx, h.disk[n].data)
	if err != nil || blob == "" {
		return nil, false, err
	}
	touches, err := h.judge.Repo.Provenance().Touches(ctx, reach, blob)
	if err != nil {
		return nil, false, err
	}
	for _, t := range touches {
		if t.New == blob && h.origins[t.Commit] == fromElsewhere {
			by, foreign = append(by, t), true
		}
	}
	return by, foreign, nil
}

// storedBlob returns the blob with this content if the repository has it, else "". It asks git once, for all files of the subject.
func (h *history) storedBlob(ctx context.Context, data []byte) (blob string, err error) {
	like, err := h.judge.Repo.Refs().Head(ctx, h.judge.Repo.Main)
	if err != nil && !errors.Is(err, git.ErrNoCommit) {
		return "", err
	}
	if h.stored == nil {
		var blobs []string
		for _, f := range h.disk {
			if len(f.data) > 0 && path.Ext(f.path) != ".jsonl" {
				blobs = append(blobs, git.BlobID(f.data, like))
			}
		}
		contents, err := h.judge.Repo.Provenance().Blobs(ctx, durable.MaxRecords, blobs...)
		if err != nil {
			return "", err
		}
		h.stored = map[string]bool{}
		for id := range contents {
			h.stored[id] = true
		}
	}
	if blob = git.BlobID(data, like); !h.stored[blob] {
		return "", nil
	}
	return blob, nil
}

// recordByTrunkHistory trusts those of the guilty items that the trusted branch has ever had, and records the others as foreign. A
// value of a setting counts only at the tip.
func (h *history) recordByTrunkHistory(ctx context.Context, guilty []Item, strange []Entry, found *[]Entry) error {
	old := slices.DeleteFunc(slices.Clone(guilty), func(i Item) bool { return i.settingName() != "" })
	var touches []git.Touch
	if h.trunk.tip != "" && len(old) > 0 {
		var err error
		if touches, err = h.touches(ctx, git.Reach{Tips: []string{h.trunk.tip}, FirstParent: true}, pathsOf(old)); err != nil {
			return err
		}
	}
	for n, i := range guilty {
		merged := i.settingName() == "" && slices.ContainsFunc(touches, func(t git.Touch) bool { return t.Path == i.File && h.has(blobAt{t.Path, t.New}, i) })
		if merged {
			*found = append(*found, entry(Branch, h.subject.Name, i))
		} else {
			*found = append(*found, strange[n])
		}
	}
	return nil
}

func (h *history) foreignEntry(i Item, by []git.Touch) Entry {
	e := entry(Stranger, h.subject.Name, i)
	if len(by) > 0 {
		t := by[len(by)-1]
		e.Commit, e.Author, e.Date = t.Commit, t.Author, t.Date
	}
	return e
}

// touches returns the changes that commits made to paths, and reads the versions before and after them.
func (h *history) touches(ctx context.Context, reach git.Reach, paths []string) ([]git.Touch, error) {
	touches, err := h.judge.Repo.Provenance().Touches(ctx, reach, "", paths...)
	if err != nil {
		return nil, err
	}
	var versions []blobAt
	for _, t := range touches {
		versions = append(versions, blobAt{t.Path, t.Old}, blobAt{t.Path, t.New})
	}
	return touches, h.load(ctx, versions)
}

// load reads the items of versions of files. A version that is not here, or too large for Trellis to read, has none.
func (h *history) load(ctx context.Context, versions []blobAt) error {
	h.loadUnchanged(versions)
	var small, large []string
	for _, v := range versions {
		if _, known := h.itemIDs[v]; known || v.blob == "" || slices.Contains(small, v.blob) || slices.Contains(large, v.blob) {
			continue
		}
		if slices.ContainsFunc(h.disk, func(f fileVersion) bool { return f.path == v.path && f.named }) {
			large = append(large, v.blob)
		} else {
			small = append(small, v.blob)
		}
	}
	blobs, err := h.judge.Repo.Provenance().Blobs(ctx, durable.MaxRecords, small...)
	if err != nil {
		return err
	}
	programs, err := h.judge.Repo.Provenance().Blobs(ctx, maxProgram, large...)
	if err != nil {
		return err
	}
	maps.Copy(blobs, programs)
	for _, v := range versions {
		if _, known := h.itemIDs[v]; known {
			continue
		}
		var items []Item
		if data, ok := blobs[v.blob]; ok || v.blob == "" {
			items, _ = h.subject.Read(v.path, data)
		}
		h.setItems(v, items)
	}
	return nil
}

// loadUnchanged uses the items of the files on the disk for versions with the same bytes.
func (h *history) loadUnchanged(versions []blobAt) {
	ids := map[string]string{}
	for _, v := range versions {
		n := slices.IndexFunc(h.disk, func(f fileVersion) bool { return f.path == v.path })
		if n < 0 || v.blob == "" {
			continue
		}
		if ids[v.path] == "" {
			ids[v.path] = git.BlobID(h.disk[n].data, v.blob)
		}
		if ids[v.path] == v.blob {
			h.setItems(v, h.disk[n].items)
		}
	}
}

func (h *history) setItems(v blobAt, items []Item) {
	ids := make([]string, 0, len(items))
	for _, i := range items {
		ids = append(ids, i.ID())
	}
	h.itemIDs[v] = ids
}

func (h *history) has(v blobAt, i Item) bool { return h.hasID(v, i.ID()) }

func (h *history) hasID(v blobAt, id string) bool { return slices.Contains(h.itemIDs[v], id) }

func pathsOf(items []Item) (paths []string) {
	for _, i := range items {
		if !slices.Contains(paths, i.File) {
			paths = append(paths, i.File)
		}
	}
	return paths
}
