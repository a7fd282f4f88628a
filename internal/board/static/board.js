// The page holds nothing until it has shown the key that came with its address. The key stays in this tab, and goes to the
// same place alone, in a header that no other site can send.
'use strict';
(() => {
  const store = 'trellis-key';
  const byId = id => document.getElementById(id);
  let key = location.hash.length > 20 ? location.hash.slice(1) : '';
  if (key) {
    sessionStorage.setItem(store, key);
    history.replaceState(null, '', location.pathname + location.search);
  } else key = sessionStorage.getItem(store) || '';

  // A tab that was opened from another has no key of its own: the others of this page give it theirs.
  const others = new BroadcastChannel('trellis-board');
  others.onmessage = e => {
    if (e.data === 'key?' && key) others.postMessage({key});
    else if (e.data && e.data.key && !key) {
      key = e.data.key;
      sessionStorage.setItem(store, key);
      load();
    }
  };

  // Tabs of a browser share its connections: the server tells them by this.
  const browser = localStorage.getItem('trellis-browser') || Math.random().toString(36).slice(2);
  localStorage.setItem('trellis-browser', browser);

  const live = (state, says) => {
    const el = byId('live');
    if (el.dataset.state !== state) { el.dataset.state = state; el.textContent = says; }
  };
  let asked = false;
  const load = () => {
    if (!key) {
      live('off', 'no key');
      byId('main').innerHTML = '<section class="panel bad narrow" role="alert"><h1>This tab has no key</h1><p>Open the address that <code>trellis board</code> printed: it ends with the key, and stays in that tab.</p></section>';
      others.postMessage('key?');
      return;
    }
    asked = true;
    htmx.ajax('GET', '/v' + location.pathname + location.search, {target: '#main', swap: 'innerHTML'});
  };

  document.addEventListener('htmx:config:request', e => {
    const request = e.detail.ctx.request;
    if (key && new URL(request.action, location.href).origin === location.origin) Object.assign(request.headers, {Authorization: 'Bearer ' + key, 'Trellis-Browser': browser});
  });
  const refused = code => {
    if (code !== 401 && code !== 429) return false;
    live('off', 'the key is refused');
    return true;
  };
  document.addEventListener('htmx:sse:after:connection', e => {
    if (!refused(e.detail.connection.status)) live('on', 'live');
  });
  document.addEventListener('htmx:sse:before:connection', e => {
    if (document.hidden) e.detail.connection.cancelled = true; // it was opened where nobody looks, and listens when somebody does
    else if (e.detail.connection.attempt > 0) live('wait', 'not connected: trying again');
  });
  document.addEventListener('htmx:sse:error', e => {
    if (!refused(e.detail.status)) live('wait', 'not connected: trying again');
  });
  document.addEventListener('htmx:sse:after:message', e => { // whoever connects again has been told this
    const stream = byId('stream'), url = new URL(stream.getAttribute('hx-sse:connect'), location.href);
    url.searchParams.set('at', e.detail.message.id);
    stream.setAttribute('hx-sse:connect', url.pathname + url.search);
  });
  document.addEventListener('htmx:sse:close', e => { if (e.detail.reason === 'message') live('rest', 'not live: other windows are'); });
  const connect = () => {
    const stream = byId('stream');
    if (stream && !document.hidden && !(stream._htmx && stream._htmx.sse)) htmx.ajax('GET', stream.getAttribute('hx-sse:connect'), {source: stream});
  };
  window.addEventListener('focus', connect);
  let again = 0;
  const retry = () => {
    if (again || document.hidden) return;
    again = setTimeout(() => {
      again = 0;
      if (byId('stream')) connect(); else load();
    }, 1500);
  };
  document.addEventListener('htmx:error', () => { live('wait', 'not connected: trying again'); retry(); });
  document.addEventListener('htmx:response:error', e => {
    const ctx = e.detail.ctx;
    if (refused(ctx.response.status)) {
      ctx.text = '<section class="panel bad narrow" role="alert"><h1>The key is refused</h1><p>Open the address that <code>trellis board</code> printed last.</p></section>';
      return;
    }
    if (ctx.sourceElement && ctx.sourceElement.id === 'stream') { live('wait', 'not connected: trying again'); retry(); }
  });
  document.addEventListener('visibilitychange', () => { if (!document.hidden && asked && key && !byId('stream')) load(); else connect(); });

  // Times go by while somebody is at work; while nobody is, nothing ticks.
  const words = s => s < 60 ? s + 's' : s < 3600 ? Math.floor(s / 60) + 'm' + String(s % 60).padStart(2, '0') + 's' : Math.floor(s / 3600) + 'h' + String(Math.floor(s % 3600 / 60)).padStart(2, '0') + 'm';
  let ticking = 0;
  const tick = () => {
    ticking = 0;
    const all = document.querySelectorAll('time.since');
    for (const el of all) {
      const began = Date.parse(el.dataset.since);
      if (began) el.textContent = words(Math.max(0, Math.floor((Date.now() - began) / 1000)));
    }
    if (all.length && !document.hidden) ticking = setTimeout(tick, 1000);
  };
  const ticks = () => { clearTimeout(ticking); tick(); };
  document.addEventListener('visibilitychange', ticks);

  // A log follows its end until somebody scrolls up.
  let following = true;
  const follow = on => {
    following = on;
    const button = byId('follow');
    if (button) { button.setAttribute('aria-pressed', on); button.textContent = on ? 'Following' : 'Follow'; }
    if (on) toEnd();
  };
  const toEnd = () => { const log = byId('log'); if (log && following) log.scrollTop = log.scrollHeight; };
  const most = 4000;
  document.addEventListener('scroll', e => {
    const log = e.target;
    if (log.id !== 'log') return;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    if (atEnd !== following) follow(atEnd);
  }, true);

  let selected = '', typed = null;
  document.addEventListener('htmx:before:swap', () => {
    const q = byId('q');
    typed = q && document.activeElement === q ? {value: q.value, at: q.selectionStart} : null;
  });
  document.addEventListener('htmx:after:swap', () => {
    const log = byId('log');
    while (log && log.childElementCount > most) log.firstElementChild.remove();
    toEnd();
    ticks();
    if (asked && !byId('stream') && byId('live').dataset.state === 'wait') live('still', ''); // a page that is as it was asked for
    for (const el of document.querySelectorAll('header nav a')) {
      if (el.dataset.page === location.pathname) el.setAttribute('aria-current', 'page'); else el.removeAttribute('aria-current');
    }
    const q = byId('q');
    if (typed && q && document.activeElement !== q) {
      q.value = typed.value;
      q.focus();
      q.setSelectionRange(typed.at, typed.at);
    }
    if (selected && document.activeElement === document.body) {
      const card = document.querySelector('a.open[data-task="' + CSS.escape(selected) + '"]');
      if (card) card.focus({preventScroll: true});
    }
  });
  document.addEventListener('focusin', e => {
    const card = e.target.closest && e.target.closest('a.open');
    selected = card ? card.dataset.task : '';
  });

  // What takes something away asks once.
  document.addEventListener('click', e => {
    const el = e.target.closest('[data-asks]');
    if (el && !el.dataset.sure) {
      e.preventDefault();
      e.stopImmediatePropagation();
      ask(el);
    }
    if (e.target.id === 'follow') follow(!following);
    if (e.target.id === 'show-keys') byId('keys').showModal();
    if (e.target.closest('#said')) byId('said').replaceChildren();
  }, true);
  const ask = el => {
    const dialog = document.createElement('dialog');
    const says = document.createElement('p');
    says.textContent = el.dataset.asks;
    const line = document.createElement('div');
    line.className = 'line';
    const yes = document.createElement('button'), no = document.createElement('button');
    yes.className = 'button danger'; yes.textContent = el.textContent; yes.id = 'sure';
    no.className = 'button'; no.textContent = 'Back';
    line.append(yes, no);
    dialog.append(says, line);
    document.body.append(dialog);
    yes.onclick = () => { el.dataset.sure = '1'; el.click(); delete el.dataset.sure; dialog.close(); };
    no.onclick = () => dialog.close();
    dialog.onclose = () => { dialog.remove(); el.focus(); };
    dialog.showModal();
  };

  // Searching begins while somebody types.
  let typing = 0;
  const search = () => {
    const form = byId('search');
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    const address = '/' + (query.size ? '?' + query : '');
    history.replaceState(null, '', address);
    const at = document.activeElement.id;
    htmx.ajax('GET', '/v' + address, {target: '#main', swap: 'innerHTML'}).then(() => { if (at && at !== 'q' && byId(at)) byId(at).focus(); });
  };
  document.addEventListener('input', e => { if (e.target.id === 'q') { clearTimeout(typing); typing = setTimeout(search, 150); } });
  document.addEventListener('change', e => { if (e.target.form && e.target.form.id === 'search' && e.target.id !== 'q') search(); });
  document.addEventListener('submit', e => { if (e.target.id === 'search') { e.preventDefault(); search(); } });

  // Keys.
  const move = (down, right) => {
    const columns = [...document.querySelectorAll('.column')].map(c => [...c.querySelectorAll('a.open')]).filter(c => c.length);
    if (!columns.length) return;
    let x = columns.findIndex(c => c.includes(document.activeElement));
    if (x < 0) { columns[0][0].focus(); return; }
    let y = columns[x].indexOf(document.activeElement);
    x = Math.min(Math.max(x + right, 0), columns.length - 1);
    y = Math.min(Math.max(y + down, 0), columns[x].length - 1);
    columns[x][y].focus();
  };
  const keys = {
    j: () => move(1, 0), k: () => move(-1, 0), l: () => move(0, 1), h: () => move(0, -1),
    '/': () => byId('q') && byId('q').focus(), n: () => { location.href = '/plan'; }, b: () => { location.href = '/'; },
    '?': () => byId('keys').showModal(), f: () => follow(!following),
  };
  document.addEventListener('keydown', e => {
    if (e.key === 'Escape') typed = null; // who leaves the search is not put back by the list that it brings
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    if (e.target.closest('input, textarea, select')) {
      if (e.key === 'Escape') e.target.blur();
      return;
    }
    const link = document.querySelector('[data-tab="' + CSS.escape(e.key) + '"]') || document.querySelector('.task [data-key="' + CSS.escape(e.key) + '"]');
    if (link) { e.preventDefault(); link.focus(); link.click(); return; }
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });

  document.addEventListener('DOMContentLoaded', load);
})();
