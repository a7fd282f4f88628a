// Comments on lines of a diff. They stay in this tab, with what is half written, until the board has taken them.
'use strict';
(() => {
  const byId = id => document.getElementById(id);
  let list = [], task = '', sending = false;
  const place = () => 'trellis-comments:' + task;

  const make = (name, props, ...children) => {
    const el = Object.assign(document.createElement(name), props);
    el.append(...children);
    return el;
  };
  const named = c => c.file + ':' + c.line + ' (' + c.side + ')';

  // keep writes down what there is, and shows how much.
  const keep = () => {
    const written = list.filter(c => c.text.trim()), general = byId('general').value;
    if (list.length || general) sessionStorage.setItem(place(), JSON.stringify({list, general}));
    else sessionStorage.removeItem(place());
    byId('comments').elements.comments.value = JSON.stringify(written.map(({file, side, line, text}) => ({file, side, line, text})));
    byId('comment-count').textContent = written.length === 0 ? 'No comments' : written.length === 1 ? '1 comment' : written.length + ' comments';
    byId('send-back').disabled = sending || !written.length && !general.trim();
  };

  // A line is found by its file, its side and its number; it may be on another page of the diff.
  let lines = new Map();
  const keyOf = c => JSON.stringify([c.file, c.side, c.line]);
  const buttonOf = c => lines.get(keyOf(c));
  const find = () => {
    lines = new Map();
    for (const button of document.querySelectorAll('table.diff .no button')) lines.set(keyOf(lineOf(button)), button);
  };
  const lineOf = button => {
    const cell = button.closest('td'), row = cell.parentElement, first = row.querySelector('td.no') === cell;
    const code = cell.nextElementSibling.matches('.code') ? cell.nextElementSibling : row.querySelector('td.code');
    return {file: row.closest('table').dataset.file, side: first ? 'old' : 'new', line: Number(button.textContent), quote: code.textContent};
  };
  const same = (a, b) => a.file === b.file && a.side === b.side && a.line === b.line;

  // begin opens the comment on a line, which there is one of.
  const begin = button => {
    const at = lineOf(button);
    let c = list.find(c => same(c, at));
    if (!c) list.push(c = {...at, text: ''});
    c.open = true;
    draw();
    focusOn(c);
  };
  const focusOn = c => {
    const box = [...document.querySelectorAll('.comment-box')].find(b => same(b.comment, c));
    const el = box && (box.querySelector('textarea') || box.querySelector('button'));
    if (el) el.focus();
  };
  const close = c => {
    c.open = false;
    list = list.filter(c => c.open || c.text.trim());
    draw();
    const button = buttonOf(c);
    if (button) choose(button);
  };
  const remove = c => {
    list = list.filter(other => other !== c);
    draw();
    const button = buttonOf(c);
    if (button) choose(button); else byId('general').focus();
  };
  const edit = c => { c.open = true; draw(); focusOn(c); };

  const boxOf = c => {
    const box = make('div', {className: 'comment-box'});
    box.comment = c;
    const line = make('div', {className: 'line'});
    if (c.open) {
      const text = make('textarea', {rows: 3, value: c.text, id: 'comment-text-' + list.indexOf(c)});
      text.oninput = () => { c.text = text.value; keep(); names(); };
      text.onkeydown = e => {
        if (e.key === 'Escape' || e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); e.stopPropagation(); close(c); }
      };
      line.append(make('button', {type: 'button', className: 'button', textContent: 'Keep', onclick: () => close(c)}));
      box.append(make('label', {htmlFor: text.id, textContent: 'Comment on ' + named(c)}), text, line);
    } else {
      line.append(make('button', {type: 'button', className: 'button', textContent: 'Edit', ariaLabel: 'Edit the comment on ' + named(c), onclick: () => edit(c)}));
      box.append(make('p', {textContent: c.text}), line);
    }
    line.append(make('button', {type: 'button', className: 'button', textContent: 'Remove', ariaLabel: 'Remove the comment on ' + named(c), onclick: () => remove(c)}));
    return box;
  };

  // names lists all comments above the diff, those on other pages too.
  const names = () => {
    byId('comment-list').replaceChildren(...list.filter(c => c.text.trim()).map(c => {
      const button = buttonOf(c);
      const go = make('a', {className: 'mono', textContent: named(c), href: '/task/' + task + '/diff?file=' + encodeURIComponent(c.file)});
      go.onclick = e => {
        if (!button) return;
        e.preventDefault();
        button.scrollIntoView({block: 'center'});
        focusOn(c);
      };
      const item = make('li', {}, go, make('span', {textContent: c.text}));
      if (button && lineOf(button).quote !== c.quote) item.append(make('em', {className: 'moved', textContent: 'another line now'}));
      item.append(make('button', {type: 'button', className: 'quiet', textContent: 'Remove', ariaLabel: 'Remove the comment on ' + named(c), onclick: () => remove(c)}));
      return item;
    }));
  };

  const draw = () => {
    for (const row of document.querySelectorAll('tr.comment')) row.remove();
    for (const c of list) {
      const button = buttonOf(c), row = button && button.closest('tr');
      if (!row) continue;
      const cell = make('td', {colSpan: row.cells.length}, boxOf(c));
      row.after(make('tr', {className: 'comment'}, cell));
    }
    names();
    keep();
  };

  // choose moves the focus from line to line: one of them can be reached by tab.
  const choose = button => {
    for (const other of document.querySelectorAll('table.diff .no button[tabindex="0"]')) other.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
  };
  const step = by => {
    const rows = [...document.querySelectorAll('table.diff tr')].filter(r => r.querySelector('.no button'));
    const at = rows.indexOf(document.activeElement.closest('tr'));
    const row = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    const all = row && row.querySelectorAll('.no button');
    if (all && all.length) { choose(all[all.length - 1]); row.scrollIntoView({block: 'nearest'}); }
  };
  const across = by => {
    const all = [...document.activeElement.closest('tr').querySelectorAll('.no button')];
    const button = all[all.indexOf(document.activeElement) + by];
    if (button) choose(button);
  };
  const onLine = () => document.activeElement.matches('table.diff .no button');

  document.addEventListener('focusin', e => {
    if (e.target.matches && e.target.matches('table.diff .no button')) {
      const {file, side, line} = lineOf(e.target);
      e.target.ariaLabel = 'Comment on line ' + line + ' of ' + file + ', ' + side;
    }
  });
  document.addEventListener('click', e => {
    const button = byId('comments') && e.target.closest && e.target.closest('table.diff .no button');
    if (button) begin(button);
  });
  document.addEventListener('keydown', e => {
    if (!byId('comments') || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || e.target.closest('input, textarea, select')) return;
    const by = {j: 1, k: -1}[e.key] || onLine() && {ArrowDown: 1, ArrowUp: -1}[e.key];
    const side = onLine() && {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!by && !side && !(e.key === 'c' && onLine())) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    if (by) step(by); else if (side) across(side); else begin(document.activeElement);
  }, true);
  document.addEventListener('input', e => { if (e.target.id === 'general') keep(); });

  // They are sent once, and forgotten when the board has taken them.
  document.addEventListener('submit', e => {
    if (e.target.id === 'comments' && sending) { e.preventDefault(); e.stopImmediatePropagation(); }
  }, true);
  const mine = e => e.detail.ctx.sourceElement && e.detail.ctx.sourceElement.id === 'comments';
  document.addEventListener('htmx:before:request', e => { if (mine(e)) { sending = true; byId('send-back').disabled = true; } });
  document.addEventListener('htmx:finally:request', e => {
    if (!mine(e)) return;
    sending = false;
    const answer = e.detail.ctx.response;
    if (answer && answer.status === 200) {
      list = []; // who comes back to this page does not find them
      byId('general').value = '';
      draw();
      location.href = '/task/' + task;
    } else if (byId('comments')) keep();
  });

  // A page that was loaded finds what was written.
  const load = () => {
    const form = byId('comments');
    if (!form || form.dataset.loaded) return;
    form.dataset.loaded = '1';
    task = form.dataset.task;
    let kept = {};
    try { kept = JSON.parse(sessionStorage.getItem(place())) || {}; } catch { kept = {}; }
    list = Array.isArray(kept.list) ? kept.list : [];
    byId('general').value = kept.general || '';
    find();
    draw();
    const first = document.querySelector('table.diff .no button');
    if (first) first.tabIndex = 0;
  };
  document.addEventListener('htmx:after:swap', load);
})();
