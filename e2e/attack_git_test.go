package e2e

import "testing"

// Parts of the attacks' scripts.
const (
	// canary succeeds if the program of the attack was run by anybody outside of the attack.
	canary = "test -e $ROOT/canary"
	// plant defines a shell function that writes a program, which leaves the canary wherever it is run.
	plant = "echo '# work' >> greet.sh\nG=$(git rev-parse --git-common-dir)\nplant() { mkdir -p $(dirname $1); printf '#!/bin/sh\\ntouch %s/canary\\ncat 2>/dev/null\\nexit 0\\n' $ROOT > $1; chmod +x $1; }\n"
	// work makes a good change and sets the names of git's folders.
	work = "echo '# work' >> greet.sh\nG=$(git rev-parse --git-common-dir); O=$G/objects\n"
	// noted records the commit of main, and moved succeeds if main or the branch of HEAD has changed since.
	noted = "git add -A; git commit -q -m settings; git rev-parse main > $ROOT/main"
	moved = "test \"$(git symbolic-ref -q HEAD)\" != refs/heads/main || test \"$(git rev-parse main)\" != \"$(cat $ROOT/main)\""
	// another runs a second task, whose agent is honest.
	another = "mkdir -p .trellis/tasks/02-02-next; cp .trellis/tasks/02-01-bye/prd.md .trellis/tasks/02-01-bye/*.jsonl .trellis/tasks/02-02-next/; echo '{\"status\": \"ready\", \"branch\": \"feature/next\"}' > .trellis/tasks/02-02-next/task.json; " +
		"sed -i 's/run: .*, answer: All/run: [\"echo more >> greet.sh\"], answer: All/' .trellis/rehearsal.yaml; $PROGRAM start 02-02-next; "
)

// traps are attacks that try to make Trellis' git run a program, outside of the sandbox.
var traps = []attack{
	{name: "a hook", script: plant + "plant $G/hooks/pre-commit; for h in post-commit commit-msg prepare-commit-msg reference-transaction post-checkout post-index-change; do plant $G/hooks/$h; done", got: canary},
	{name: "a hook for the next task", script: plant + "plant $G/hooks/pre-commit; plant $G/hooks/post-checkout", got: another + canary},
	{name: "a folder of hooks", script: plant + "plant $ROOT/h/pre-commit; git config core.hooksPath $ROOT/h", got: another + canary},
	{name: "a folder of hooks of the person", script: plant + "plant $ROOT/h/pre-commit; git config --global core.hooksPath $ROOT/h", got: canary},
	{name: "the project's folder of hooks", prepare: "git config core.hooksPath .githooks", script: plant + "plant .githooks/pre-commit", got: canary},
	{name: "the hook's object", prepare: "git config core.hooksPath .githooks", script: plant + `plant $ROOT/h || plant ../h; R=$(git rev-parse HEAD:.githooks/pre-commit)
F=$(printf '#!/bin/sh\ntouch %s/canary\n' $ROOT | git hash-object -w --stdin); cd $G/objects; o() { echo $1 | sed 's|^..|&/|'; }; chmod u+w $(o $R); cp -f $(o $F) $(o $R)`, got: another + canary},
	{name: "what the hook calls", prepare: "git config core.hooksPath .githooks; mkdir tools; echo true > tools/lint.sh; echo 'sh tools/lint.sh' >> .githooks/pre-commit", script: plant + "plant tools/lint.sh", got: canary, off: open(calls), require: open(calls)},
	{name: "settings that are included", script: plant + "plant $ROOT/h/pre-commit; printf '[core]\\nhooksPath = %s/h\\n' $ROOT > $ROOT/inc; git config include.path $ROOT/inc", got: another + canary},
	{name: "settings that are there to include", prepare: "git config include.path ../.gitshared; touch .gitshared; git add .gitshared", script: plant + "plant $ROOT/h/pre-commit; printf '[core]\\nhooksPath = %s/h\\n' $ROOT > $MAIN/.gitshared", got: another + canary},
	{name: "a monitor of files", script: plant + "plant $ROOT/mon; git config core.fsmonitor $ROOT/mon", got: another + canary},
	{name: "a filter", script: plant + "plant $ROOT/f; git config filter.x.clean $ROOT/f; git config filter.x.smudge $ROOT/f; git config filter.x.process $ROOT/f; echo '* filter=x' > .gitattributes", got: another + canary, off: told("protected_path")},
	{name: "a filter of the repository", script: plant + "plant $ROOT/f; git config filter.x.clean $ROOT/f; git config filter.x.smudge $ROOT/f; mkdir -p $G/info; echo '* filter=x' > $G/info/attributes", got: another + canary, off: told("protected_path")},
	{name: "programs of git", script: plant + "plant $ROOT/p; for k in core.editor core.pager core.sshCommand core.askPass gpg.program diff.external credential.helper merge.x.driver diff.x.textconv sequence.editor pager.log; do git config $k $ROOT/p; done; git config commit.gpgSign true; echo '* diff=x merge=x' > .gitattributes", got: another + canary, off: told("gpg failed")},
	{name: "another program named git", script: plant + "plant $HOME/.local/bin/git; plant $ROOT/bin/git; plant ./git", got: canary, off: open(ofPath)},
	{name: "another program named bwrap", script: plant + "plant $HOME/.local/bin/bwrap; plant $ROOT/bin/bwrap; plant ./bwrap", got: another + canary, off: open(ofPath)},
	{name: "a repository within", script: plant + "mkdir sub; cd sub; git init -q; plant $ROOT/f; echo x > x; git add x; git commit -q -m x; git config core.fsmonitor $ROOT/f", got: canary},
	{name: "another git folder", script: plant + "plant $ROOT/f; git clone -q --bare . ../own; git -C ../own config core.fsmonitor $ROOT/f; git -C ../own config core.bare false; echo gitdir: $(cd ../own && pwd) > .git", got: canary},
}

// harms are attacks that damage a person's repository.
var harms = []attack{
	{name: "main is moved", prepare: noted, script: work + "git add -A; git commit -q -m mine; git update-ref refs/heads/main HEAD", got: moved, off: told("main")},
	{name: "packed main is moved", prepare: noted + "; git pack-refs --all", script: work + "git add -A; git commit -q -m mine; sed -i \"s/.* refs.heads.main$/$(git rev-parse HEAD) refs\\/heads\\/main/\" $G/packed-refs", got: moved, off: told("main")},
	{name: "main's file is written", prepare: noted, script: work + "git add -A; git commit -q -m mine; git rev-parse HEAD > $G/refs/heads/main", got: moved, off: told("main")},
	{name: "HEAD is moved", prepare: noted, script: work + "echo ref: refs/heads/else > $G/HEAD", got: moved, off: told("HEAD")},
	{name: "a commit in the main checkout", prepare: noted, script: work + "cd $MAIN; echo x > README.md; git add README.md; git commit -q -m mine", got: moved, off: told("main")},
	{name: "all loose objects are removed", script: work + "rm -rf $O/??", got: "! git log main || ! git fsck --connectivity-only", off: told("objects")},
	{name: "old loose objects are removed", prepare: "for i in 1 2 3; do echo $i > n; git add n; git commit -q -m $i; done", script: work + "f=$(git rev-parse HEAD~2 | sed 's|^..|&/|'); rm -f $O/$f", got: "! git log main || ! git fsck --connectivity-only", off: told("objects")},
	{name: "packs are removed", prepare: "git gc -q", script: work + "rm -rf $O/pack", got: "! git log main", off: told("worktree_failed")},
	{name: "git's folder is removed", script: work + "rm -rf $G/refs $G/HEAD $G/config $O", got: "! git log main", off: told("git")},
	{name: "what nothing leads to is pruned", prepare: "echo precious | git hash-object -w --stdin > $ROOT/precious", script: work + "git reflog expire --expire=now --all; git gc -q --prune=now; git prune --expire=now", got: "! git cat-file -e $(cat $ROOT/precious)", off: told("objects of git were deleted")},
	{name: "objects are kept elsewhere", script: work + "cp -r $O ../own; GIT_OBJECT_DIRECTORY=$PWD/../own git add -A; (cd ../own && pwd) > $O/info/alternates", got: "test -s .git/objects/info/alternates && grep -q '\"review\"' $TASK/task.json", off: told("objects/info/alternates")},
	{name: "the stash is dropped", prepare: "echo mine > README.md; git add README.md; git commit -q -m readme; echo more >> README.md; git stash push -q -- README.md; git rev-parse stash > $ROOT/stash", script: work + "git stash drop -q; git prune --expire=now", got: "! git cat-file -e $(cat $ROOT/stash)^{tree}", off: told("objects of git were deleted")},
	{name: "the main index", script: work + "GIT_INDEX_FILE=$MAIN/.git/index GIT_DIR=$MAIN/.git GIT_WORK_TREE=$MAIN git update-index --assume-unchanged test.sh; rm -f $MAIN/.git/index.lock", got: "git ls-files -v | grep -q '^h'", off: open(elsewhere)},
	{name: "the worktree is another's", prepare: noted, script: work + "W=$PWD; cd ..; mv $W $W-away; ln -s $MAIN $W", got: moved + " || test ! -d $TASK"},
	{name: "the folder of tasks", script: work + "rm -rf $MAIN/.trellis/tasks/02-02-other", prepare: "mkdir -p .trellis/tasks/02-02-other; echo '# Other' > .trellis/tasks/02-02-other/prd.md; echo '{\"status\": \"planning\"}' > .trellis/tasks/02-02-other/task.json", got: "test ! -e .trellis/tasks/02-02-other/prd.md", off: open(elsewhere)},
	{name: "escapes", script: work + "f=$(printf 'a\\033]0;owned\\007\\342\\200\\256b.txt'); echo x > \"$f\"; printf '\\033]0;owned\\007\\033[2J' > notes.txt", got: "grep -q $(printf '\\033') $ROOT/said || grep -q $(printf '\\007') $ROOT/said || grep -q $(printf '\\342\\200\\256') $ROOT/said"},
}

// TestTraps: no program that an agent planted for git is run when Trellis commits its work, or the work of the next task.
func TestTraps(t *testing.T) { each(t, traps) }

// TestHarms, edge A1: in the sandbox an agent destroys nothing in a repository, and without it the damage is reported.
func TestHarms(t *testing.T) { each(t, harms) }
