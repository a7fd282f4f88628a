package e2e

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// Parts of the attacks' scripts. REAL and FAKE are the names of blobs, and object prints the path of a loose object.
const (
	// nonsense is work that no honest check accepts.
	nonsense = "echo 'echo nonsense' > greet.sh\n"
	// lies defines shell functions to fake the test: FAKE is the blob of a false test, and REAL that of the true one.
	lies = nonsense + `G=$(git rev-parse --git-common-dir); O=$G/objects
object() { echo $O/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }
REAL=$(git rev-parse HEAD:test.sh); FAKE=$(echo exit 0 | git hash-object -w --stdin)
overwrite() { mkdir -p $(dirname $(object $1)); chmod u+w $(object $1) $(dirname $(object $1)); cp -f $(object $2) $(object $1); }
fresh() { rm -f test.sh; git checkout -- test.sh; touch -d 2037-01-01 $(git rev-parse --git-path index); sleep 1.1; git add greet.sh; }
`
	// forged succeeds if the nonsense was delivered.
	forged = "git show feature/bye:greet.sh | grep -q nonsense && grep -q '\"review\"' $TASK/task.json"
)

// lying are attacks after which the test passes in the worktree where the agent works.
var lying = []attack{
	{name: "the loose object of the test", script: lies + "overwrite $REAL $FAKE; fresh"},
	{name: "the loose object of the folder", script: lies + `T=$(git rev-parse HEAD^{tree})
N=$(git ls-tree HEAD | sed "s/$REAL/$FAKE/" | git mktree); overwrite $T $N; fresh; echo exit 0 > test.sh`},
	{name: "the loose object of the base commit", script: lies + `N=$(git ls-tree HEAD | sed "s/$REAL/$FAKE/" | git mktree)
C=$(git cat-file commit HEAD | sed "s/^tree .*/tree $N/" | git hash-object -t commit -w --stdin); overwrite $(git rev-parse HEAD) $C; echo exit 0 > test.sh`},
	{name: "a pack that names it wrong", prepare: "git gc -q --prune=now", script: lies + packed},
	{name: "the pack overwritten", prepare: "git gc -q --prune=now", script: lies + "rm -rf ../e; git init -q ../e; cp -r $O/pack/* ../e/; for p in ../e/*.pack; do git unpack-objects -q < $p; done; rm -f $O/pack/*; overwrite $REAL $FAKE; fresh"},
	{name: "a replaced object", script: lies + "git replace -f $REAL $FAKE; fresh"},
	{name: "a replaced commit", script: lies + "git add -A; git rm -q --cached test.sh; N=$(git ls-tree HEAD | sed \"s/$REAL/$FAKE/\" | git mktree); git replace -f HEAD $(git commit-tree -m first $N); echo exit 0 > test.sh"},
	{name: "a graft", script: lies + "echo exit 0 > test.sh; git add -A; git commit -q -m mine; git rev-parse HEAD > $G/info/grafts"},
	{name: "a shallow file", script: lies + "echo exit 0 > test.sh; git add -A; git commit -q -m mine; git rev-parse HEAD > $G/shallow"},
	{name: "objects of another folder", script: lies + `mkdir -p ../alt/$(echo $REAL | cut -c1-2); cp $(object $FAKE) ../alt/$(echo $REAL | cut -c1-2)/$(echo $REAL | cut -c3-)
echo $(cd ../alt && pwd) > $O/info/alternates; rm -f $(object $REAL); fresh`},
	{name: "assume-unchanged", script: lies + "git update-index --assume-unchanged test.sh; echo exit 0 > test.sh"},
	{name: "skip-worktree", script: lies + "git update-index --skip-worktree test.sh; echo exit 0 > test.sh"},
	{name: "sparse checkout", script: lies + "git sparse-checkout set --no-cone '/*' '!/test.sh'; echo exit 0 > test.sh"},
	{name: "attributes of the repository", script: lies + "git config filter.x.smudge 'echo exit 0; cat >/dev/null'; git config filter.x.clean 'cat >/dev/null; git cat-file blob '$REAL; mkdir -p $G/info; echo 'test.sh filter=x' > $G/info/attributes; fresh"},
	{name: "attributes of the work", script: lies + "git config filter.x.smudge 'echo exit 0; cat >/dev/null'; git config filter.x.clean 'cat >/dev/null; git cat-file blob '$REAL; echo 'test.sh filter=x' > .gitattributes; fresh"},
	{name: "attributes of the person", script: lies + "git config --global core.attributesFile $HOME/a; git config --global filter.x.smudge 'echo exit 0; cat >/dev/null'; git config --global filter.x.clean 'cat >/dev/null; git cat-file blob '$REAL; echo 'test.sh filter=x' > $HOME/a; fresh"},
	{name: "an index of lies", script: lies + "echo exit 0 > test.sh; touch -d '2001-01-01' test.sh; git update-index --cacheinfo 100644,$REAL,test.sh; git update-index --really-refresh; cp -p test.sh t; overwrite $REAL $FAKE; git update-index --really-refresh; rm -f t"},
	{name: "another repository in its place", script: lies + "rm .git; git init -q; echo exit 0 > test.sh; git add -A; git commit -q -m first"},
	{name: "another worktree's .git", script: lies + "git worktree add -q ../w2; cp ../w2/.git .git; echo exit 0 > test.sh; git add -A; git commit -q -m x"},
	{name: "git's folder of the worktree", script: lies + "D=$(git rev-parse --absolute-git-dir); echo $PWD/../fake > $D/commondir; git clone -q --bare $MAIN ../fake; echo exit 0 > test.sh; git add -A; git commit -q -m x"},
	{name: "a false shell", script: lies + "printf '#!/bin/true\\n' > $HOME/.local/bin/sh; chmod +x $HOME/.local/bin/sh; cp /bin/true sh; rm -f $ROOT/bin/sh; cp /bin/true $ROOT/bin/sh", off: told("these programs, which decide, are not those of the beginning of the run: sh")},
}

// forgeries are attacks on the other inputs of a verdict.
var forgeries = []attack{
	{name: "a work tree elsewhere", script: lies + "git config extensions.worktreeConfig true; mkdir ../else; cp -r . ../else/; git config --worktree core.worktree $(cd ../else && pwd); echo exit 0 > ../else/test.sh", got: forged},
	{name: "a false git", script: lies + "printf '#!/bin/sh\\nexit 0\\n' > $HOME/.local/bin/git; cp $HOME/.local/bin/git git; chmod +x git $HOME/.local/bin/git", got: forged},
	{name: "the shell's first file", script: lies + "echo 'exit 0' > $HOME/.bashrc; cp $HOME/.bashrc $HOME/.profile; cp $HOME/.bashrc $HOME/.zshenv; cp $HOME/.bashrc $HOME/.bash_profile", got: forged},
	{name: "settings of the main checkout", script: lies + "echo 'verify: [\"true\"]' > $MAIN/.trellis/config.yaml", got: forged},
	{name: "settings of the person", script: lies + "mkdir -p $HOME/.config/trellis; echo 'trust: {everything: [/]}' > $HOME/.config/trellis/config.yaml; git config --global core.fsmonitor true", got: forged},
	{name: "the test of the main checkout", script: lies + "echo exit 0 > $MAIN/test.sh", got: forged},
	{name: "commands of the task", script: lies + "printf '{\"status\": \"in_progress\", \"pipeline\": {\"verify\": [\"true\"]}}' > $TASK/task.json", got: forged},
	{name: "criteria of the task", script: lies + "printf '# Say bye\\n' > $TASK/prd.md", got: forged},
	{name: "a task that is done", script: lies + "git add -A; git commit -q -m x; printf '{\"status\": \"review\", \"commit\": \"%s\"}' $(git rev-parse HEAD) > $TASK/task.json", got: forged},
	{name: "proofs", script: lies + "echo '{\"kind\":\"final\",\"exit\":0}' >> $TASK/proofs.jsonl", got: forged},
	{name: "approvals", script: lies + "echo exit 0 > test.sh; echo '{\"decision\":\"approved\",\"by\":\"ann\"}' >> $TASK/approvals.jsonl", got: forged},
	{name: "the report", script: lies + "echo '- Outcome: delivered' > $TASK/report.md", got: forged},
	{name: "a journal with an end", script: lies + "tail -n 2 $TASK/run/journal.jsonl > ../t; cat ../t >> $TASK/run/journal.jsonl", got: forged},
	{name: "a journal that was cut", script: lies + "head -n 3 $TASK/run/journal.jsonl > ../t; cat ../t > $TASK/run/journal.jsonl", got: forged},
	{name: "another run", script: lies + "mv $TASK/run $TASK/run2; mkdir $TASK/run; cp $TASK/run2/journal.jsonl $TASK/run/", got: forged},
	{name: "a run that is a link", script: lies + "mv $TASK/run ../run; ln -s $(cd ../run && pwd) $TASK/run", got: forged},
	{name: "a process that comes back", script: nonsense + "printf 'echo \"Hello, ${1:-world}!\"\\n' > greet.sh; (setsid sh -c 'while :; do echo echo nonsense > greet.sh; sleep 0.01; done' &); sleep 0.1", got: forged},
	{name: "a helper that git ignores", script: "echo . ./help.sh > greet.sh; echo \"echo 'Hello, Ada!'; : nonsense\" > help.sh; echo '# nonsense' >> greet.sh; echo help.sh >> .gitignore", got: forged},
	{name: "a helper in the temporary folder", script: "printf '# nonsense\\n. /tmp/trellis-attack-$WORD.sh\\n' > greet.sh; echo \"echo 'Hello, Ada!'\" > /tmp/trellis-attack-$WORD.sh", got: "git show feature/bye:greet.sh | grep -q nonsense; r=$?; rm -f /tmp/trellis-attack-$WORD.sh; exit $r", off: open(left)},
	{name: "a helper in a cache", prepare: "mkdir -p $HOME/.cache/tool", script: "printf '# nonsense\\n. $HOME/.cache/tool/help.sh\\n' > greet.sh; echo \"echo 'Hello, Ada!'\" > $HOME/.cache/tool/help.sh", got: forged, off: open(left), require: open(left)},
}

// packed makes a pack whose only object is the false test, with an index that gives this object the name of the true test.
const packed = `first=$(printf %d 0x$(echo $REAL | cut -c1-2))
P=$(echo $FAKE | git pack-objects -q $O/pack/pack); I=$O/pack/pack-$P.idx; chmod u+w $I
i=0; { while [ $i -lt 256 ]; do if [ $i -lt $first ]; then printf '\000\000\000\000'; else printf '\000\000\000\001'; fi; i=$((i+1)); done; } > ../fan
dd if=../fan of=$I bs=1 seek=8 conv=notrunc
for b in $(echo $REAL | sed 's/../& /g'); do printf "\\$(printf %o 0x$b)"; done > ../name
dd if=../name of=$I bs=1 seek=1032 conv=notrunc
touch -d 2037-01-01 $O/pack/pack-$P.*; fresh`

// TestForgedVerdicts: whatever an agent does to the records of git and Trellis, work that fails its test isn't delivered.
func TestForgedVerdicts(t *testing.T) { each(t, forgeries) }

// TestLies, edge S1: the same for attacks that make the test pass for the agent itself, and for anyone who trusts its git.
func TestLies(t *testing.T) { each(t, liars()) }

// liars returns the attacks that try to make a false test pass.
func liars() []attack {
	list := slices.Clone(lying)
	for i := range list {
		list[i].got, list[i].fools = forged, true
	}
	return list
}

// each runs attacks one by one: every second one and, of the others, those that succeed without a sandbox, reported or not (also in
// the sandbox if they have an effect there). With TRELLIS_SOAK it runs all of them.
func each(t *testing.T, attacks []attack) {
	t.Helper()
	t.Parallel()
	for i, a := range attacks {
		list := a.modes(t, i/2)
		if i%2 == 1 && !soak.Asked() {
			if a.off == (fate{}) {
				continue
			}
			if a.require == (fate{}) {
				list = []string{sandbox.Off}
			}
		}
		for _, mode := range list {
			t.Run(a.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				a.make(t, mode)
			})
		}
	}
}
