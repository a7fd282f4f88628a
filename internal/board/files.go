package board

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// filePage is a file of a task, and a person's edit of it.
type filePage struct {
	ID, Name string
	Text     string // content of the file, or what the person wrote
	Was      string // hash of the file when it was loaded; "": there was none
	Edited   bool
	Markdown bool
	Binary   bool
	Problems []trellis.Problem
	MayKeep  bool
	Now      string // current content, if it is not what was loaded
	Changed  bool
	Saved    bool
	Reads    bool
}

// file returns the page of a file of a task.
func (s *Server) file(ctx context.Context, r *http.Request) (string, error) {
	id, name := r.PathValue("id"), r.PathValue("name")
	dir, err := s.taskDir(ctx, id)
	if err != nil {
		return "", err
	}
	f := filePage{ID: id, Name: name, Markdown: strings.HasSuffix(name, ".md"), Reads: s.o.ReadOnly}
	if _, no := app.EditedFile(name); no == nil {
		was, text, err := s.p.Edits().Text(dir, name)
		if err != nil {
			return "", err
		}
		f.Text, f.Was, f.Edited = string(text), hashOf(was), true
	} else if f.Text, err = s.p.Edits().ReadListed(dir, name); err != nil {
		return "", err
	}
	f.Binary = !utf8.ValidString(f.Text)
	return render("file", page{Data: f, Reads: s.o.ReadOnly})
}

// hashOf returns the hash of a text, "" if there is no text.
func hashOf(text []byte) string {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// save writes what a person wrote to a file, if the file still says what they were shown, and if the text is valid.
func (s *Server) save(ctx context.Context, r *http.Request) (string, error) {
	dir, err := s.taskDir(ctx, r.PathValue("id"))
	if err != nil {
		return "", err
	}
	if err := r.ParseForm(); err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	name, err := app.EditedFile(r.PathValue("name"))
	if err != nil {
		return "", err
	}
	f := filePage{ID: r.PathValue("id"), Name: name, Was: r.PostFormValue("was"), Edited: true, Markdown: strings.HasSuffix(name, ".md")}
	was, _, err := s.p.Edits().Text(dir, name)
	if err != nil {
		return "", err
	}
	f.Text = withFileLineEnds(r.PostFormValue("text"), string(was))
	err = s.saveText(ctx, dir, &f, was, r.PostFormValue("keep") != "")
	html, renderErr := render("editor", page{Data: f})
	return html, errors.Join(err, renderErr)
}

// saveText saves what a person wrote. If it can't, the page gets the problems and keeps the text.
func (s *Server) saveText(ctx context.Context, dir string, f *filePage, was []byte, keep bool) error {
	if hashOf(was) != f.Was {
		return f.showConflict(was)
	}
	if err := app.CheckText(f.Name, f.Text); err != nil {
		return err
	}
	var err error
	if f.Problems, err = s.p.Edits().Check(ctx, dir, f.Name, []byte(f.Text)); err != nil {
		return err
	}
	if f.MayKeep = s.p.Edits().MaySaveInvalid(dir); len(trellis.Errors(f.Problems)) > 0 && (!keep || !f.MayKeep) {
		return app.AsKind(app.ErrUnmet, errors.New("it is not saved: there are errors in it"))
	}
	s.orderLock.Lock()
	defer s.orderLock.Unlock()
	err = s.p.Edits().Save(dir, f.Name, was, []byte(f.Text))
	if now, _, readErr := s.p.Edits().Text(dir, f.Name); err != nil && readErr == nil && hashOf(now) != f.Was {
		return f.showConflict(now)
	}
	if err == nil {
		f.Saved, f.Was = true, hashOf([]byte(f.Text))
	}
	return err
}

// showConflict shows the current content beside what the person wrote, who decides then.
func (f *filePage) showConflict(now []byte) error {
	f.Changed, f.Now, f.Was = true, string(now), hashOf(now)
	return app.AsKind(app.ErrUnmet, fmt.Errorf("%s was changed meanwhile: nothing is saved", f.Name))
}

// withFileLineEnds returns what a browser sent with the line ends of the file: browsers use their own.
func withFileLineEnds(sent, was string) string {
	sent = strings.ReplaceAll(sent, "\r\n", "\n")
	if strings.Contains(was, "\r\n") {
		return strings.ReplaceAll(sent, "\n", "\r\n")
	}
	return sent
}
