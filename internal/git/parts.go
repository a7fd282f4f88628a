package git

// What can be done with a repository, in parts. Each is a value over the same Repo: make it where it is used.
type (
	// Refs are branches, HEAD, and all else that names a commit.
	Refs struct{ *Repo }
	// History is what commits hold, and how they follow each other.
	History struct{ *Repo }
	// Worktrees are the linked checkouts.
	Worktrees struct{ *Repo }
	// Hooks are the programs that git runs, and the settings that name them.
	Hooks struct{ *Repo }
	// Index is what a checkout is compared with: its index, and how its files differ.
	Index struct{ *Repo }
	// Trees reads stored objects and checks that they, and checkouts of them, are undamaged.
	Trees struct{ *Repo }
	// ObjectStores are the folders of objects that a checkout reads and writes.
	ObjectStores struct{ *Repo }
	// Snapshots takes the files of a checkout as they are.
	Snapshots struct{ *Repo }
	// Backups keeps files and commits that would be lost.
	Backups struct{ *Repo }
	// Remotes are other repositories: what is fetched from them and pushed to them.
	Remotes struct{ *Repo }
	// Committer makes commits in a worktree.
	Committer struct{ *Repo }
	// Updater brings a branch onto its base, or a base into it.
	Updater struct{ *Repo }
	// Modules are submodules.
	Modules struct{ *Repo }
	// Provenance tells who brought which content into the repository.
	Provenance struct{ *Repo }
	// Author is who makes commits here.
	Author struct{ *Repo }
)

func (r *Repo) Refs() Refs                 { return Refs{r} }
func (r *Repo) History() History           { return History{r} }
func (r *Repo) Worktrees() Worktrees       { return Worktrees{r} }
func (r *Repo) Hooks() Hooks               { return Hooks{r} }
func (r *Repo) Index() Index               { return Index{r} }
func (r *Repo) Trees() Trees               { return Trees{r} }
func (r *Repo) ObjectStores() ObjectStores { return ObjectStores{r} }
func (r *Repo) Snapshots() Snapshots       { return Snapshots{r} }
func (r *Repo) Backups() Backups           { return Backups{r} }
func (r *Repo) Remotes() Remotes           { return Remotes{r} }
func (r *Repo) Committer() Committer       { return Committer{r} }
func (r *Repo) Updater() Updater           { return Updater{r} }
func (r *Repo) Modules() Modules           { return Modules{r} }
func (r *Repo) Provenance() Provenance     { return Provenance{r} }
func (r *Repo) Author() Author             { return Author{r} }
