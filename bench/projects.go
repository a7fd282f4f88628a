package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// unreachableError is the error for a project that can't be fetched here.
type unreachableError struct {
	what string
	err  error
}

func (u *unreachableError) Error() string { return u.what + ": " + u.err.Error() }

// goModule is a module whose checks take long if nothing is built yet, and which has no dependencies.
const goModule = "github.com/yuin/goldmark@v1.7.8"

// goProject fetches a module with the go command.
func (b *bench) goProject() ([]project, error) {
	out, err := exec.Command("go", "mod", "download", "-json", goModule).Output()
	if err != nil {
		return nil, &unreachableError{goModule, fmt.Errorf("go mod download: %w: %s", err, out)}
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return nil, fmt.Errorf("reading what go mod download said: %w", err)
	}
	folder := filepath.Join(b.dir, "goldmark")
	err = errors.Join(succeed(exec.Command("cp", "-R", at.Dir, folder)), succeed(exec.Command("chmod", "-R", "u+w", folder)))
	return []project{{name: "goldmark (Go)", folder: folder, check: "go vet ./... && go test ./...",
		change: `echo "var Measured = \"$TRELLIS_TASK_ID\"" >> markdown.go`}}, err
}

// nodeFiles are the files of a project whose packages take about 300 MB, and whose checks use some of them.
var nodeFiles = map[string]string{
	"package.json": `{"name": "measured", "version": "1.0.0", "private": true, "scripts": {"test": "tsc && eslint dist && jest dist"},
 "dependencies": {"next": "14.2.3", "react": "18.3.1", "react-dom": "18.3.1"},
 "devDependencies": {"@types/node": "20.12.7", "@types/react": "18.3.1", "@types/react-dom": "18.3.0", "eslint": "8.57.0", "jest": "29.7.0", "typescript": "5.4.5"}}
`,
	".gitignore":     "node_modules/\ndist/\n",
	".eslintrc.json": `{"root": true, "extends": "eslint:recommended", "parserOptions": {"ecmaVersion": 2022}, "env": {"es2022": true, "node": true, "jest": true}}` + "\n",
	"tsconfig.json":  `{"compilerOptions": {"strict": true, "jsx": "react", "skipLibCheck": true, "allowJs": true, "target": "es2022", "module": "commonjs", "esModuleInterop": true, "rootDir": "src", "outDir": "dist", "types": ["node"]}, "include": ["src"]}` + "\n",
	"src/page.tsx": `import React from "react";
import type { Metadata } from "next";
export const metadata: Metadata = { title: "Measured" };
export function Page(props: { names: string[] }) {
  return <ul>{props.names.map((name) => <li key={name}>{name}</li>)}</ul>;
}
`,
	"src/page.test.js": `const { renderToStaticMarkup } = require("react-dom/server");
const React = require("react");
const { Page } = require("./page");
test("a page lists names", () => expect(renderToStaticMarkup(React.createElement(Page, { names: ["Ada"] }))).toBe("<ul><li>Ada</li></ul>"));
`,
}

// nodeProject writes a project with a lock file, and fills npm's cache, as a user's is.
func (b *bench) nodeProject() ([]project, error) {
	s := &site{b: b, dir: filepath.Join(b.dir, "node")}
	for name, text := range nodeFiles {
		if err := s.write(name, text); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"install", "--package-lock-only"}, {"ci"}} {
		if err := s.run("npm", args...); err != nil {
			return nil, &unreachableError{"a Node project", err}
		}
	}
	size, err := diskUsage(filepath.Join(s.dir, "node_modules"))
	if err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, "node_modules"))); err != nil {
		return nil, err
	}
	b.rows = append(b.rows, row{name: "node_modules of the Node project", unit: "MB", samples: []float64{size}})
	cold := project{name: "Node", folder: s.dir, setup: "npm ci", check: "npm test", change: `echo "export const measured = \"$TRELLIS_TASK_ID\";" >> src/page.tsx`}
	warm := cold
	warm.name, warm.warm = "Node with worktree.warm", []string{"node_modules"}
	return []project{cold, warm}, nil
}
