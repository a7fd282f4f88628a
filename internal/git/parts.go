package git

// The operations on a repository, in parts. Each part is a small value: create it where it is used.

func (r *Repo) Refs() Refs                 { return Refs{r} }
func (r *Repo) History() History           { return History{r, r.Refs()} }
func (r *Repo) Author() Author             { return Author{r} }
func (r *Repo) Hooks() Hooks               { return Hooks{r} }
func (r *Repo) ObjectStores() ObjectStores { return ObjectStores{r, r.Hooks()} }
func (r *Repo) Index() Index               { return Index{r, r.Refs(), r.ObjectStores()} }
func (r *Repo) Trees() Trees               { return Trees{r, r.Index(), r.ObjectStores()} }
func (r *Repo) Modules() Modules           { return Modules{r, r.Author()} }
func (r *Repo) Worktrees() Worktrees {
	return Worktrees{r, r.Refs(), r.History(), r.Hooks(), r.Trees(), r.ObjectStores(), r.Modules()}
}
func (r *Repo) Remotes() Remotes {
	return Remotes{r, r.Refs(), r.History(), r.Hooks(), r.Modules()}
}
func (r *Repo) Committer() Committer {
	return Committer{r, r.Refs(), r.History(), r.Index(), r.Hooks(), r.Author()}
}
func (r *Repo) Provenance() Provenance { return Provenance{r, r.Refs(), r.Remotes()} }
