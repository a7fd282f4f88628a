package git

// The operations on a repository, in parts. Each part is a small value: create it where it is used.

func (r *Repo) Refs() Refs                 { return Refs{r} }
func (r *Repo) History() History           { return History{r} }
func (r *Repo) Author() Author             { return Author{r} }
func (r *Repo) Hooks() Hooks               { return Hooks{r} }
func (r *Repo) ObjectStores() ObjectStores { return ObjectStores{r} }
func (r *Repo) Index() Index               { return Index{r} }
func (r *Repo) Trees() Trees               { return Trees{r} }
func (r *Repo) Modules() Modules           { return Modules{r} }
func (r *Repo) Worktrees() Worktrees       { return Worktrees{r} }
func (r *Repo) Remotes() Remotes           { return Remotes{r} }
func (r *Repo) Committer() Committer       { return Committer{r} }
func (r *Repo) Provenance() Provenance     { return Provenance{r} }
