// The page's script: signs in, loads views and morphs them in place, and reads one stream of changes while the page is seen.
'use strict';
(() => {
  const STORE = 'mesh-console-key', HEADER = 'Mesh-Console-Key', VIEWS = 'mesh-views', DISMISSED = 'mesh-dismissed';
  // Of fragments: at most two a second.
  const SPACING = 500, MAX_RETRY = 10000;
  const main = document.getElementById('main');
  const byId = (id) => document.getElementById(id);
  const base = location.pathname.endsWith('/') ? '' : location.pathname.split('/').pop() + '/';
  // Other tabs of this origin, port included, hand on the key: a link opened in a new tab stays signed in.
  const tabs = 'BroadcastChannel' in window ? new BroadcastChannel(STORE) : null;
  let key = sessionStorage.getItem(STORE), stream = null, retry = 1000, turn = 0, timer = 0, doneTimer = 0, lastLoad = 0, known = Infinity;

  function keep(value) {
    key = value;
    if (value) sessionStorage.setItem(STORE, value); else sessionStorage.removeItem(STORE);
  }

  function request(path, options = {}) {
    const headers = { ...options.headers };
    if (key) headers[HEADER] = key;
    return fetch(base + path, { cache: 'no-store', credentials: 'same-origin', ...options, headers });
  }

  const asJson = (body) => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

  async function reasonOf(status, text) {
    try { return JSON.parse(text).error.message; } catch { return `the node answers ${status}`; }
  }

  // ---- signing in

  async function signIn(options) {
    const answer = await request('console/session', options);
    const text = await answer.text();
    if (!answer.ok) throw new Error(await reasonOf(answer.status, text));
    keep(JSON.parse(text).key);
  }

  async function useLink() {
    const code = new URLSearchParams(location.hash.slice(1)).get('code');
    if (!code) return;
    history.replaceState(null, '', location.pathname + location.search);
    try { await signIn(asJson({ code })); } catch (error) { main.prepend(alertBox('notice bad', `Not signed in: ${error.message}`)); }
  }

  function askTabs() {
    if (key || !tabs) return null;
    return new Promise((resolve) => {
      const done = (event) => {
        if (event && event.data.key) keep(event.data.key); else if (event) return;
        tabs.removeEventListener('message', done);
        resolve();
      };
      tabs.addEventListener('message', done);
      tabs.postMessage({ asks: true });
      setTimeout(done, 120);
    });
  }

  async function signInByForm(form) {
    const given = new FormData(form), secret = given.get('secret');
    const headers = given.get('kind') === 'key' ? { 'X-API-Key': secret } : { Authorization: `Bearer ${secret}` };
    try {
      await signIn({ method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: '{}' });
      form.reset();
      byId('sign-in').close();
      restart();
    } catch (error) { formError(form, error.message); }
  }

  async function signOut() {
    await request('console/sign-out', asJson({})).catch(() => null);
    keep(null);
    restart();
  }

  // ---- views

  function alertBox(className, text) {
    const box = document.createElement('div');
    box.className = className;
    box.setAttribute('role', 'alert');
    box.textContent = text;
    return box;
  }

  async function load(isNew) {
    const own = ++turn;
    lastLoad = Date.now();
    let answer, text;
    try {
      answer = await request('console/view' + location.search);
      text = await answer.text();
    } catch { return connected(false); }
    if (own !== turn) return;
    if (answer.status === 401 && key) { keep(null); return load(isNew); }
    const next = document.createElement('main');
    if (answer.ok) {
      const parsed = new DOMParser().parseFromString(text, 'text/html');
      next.append(...parsed.body.childNodes);
    } else {
      next.append(alertBox('notice bad', await reasonOf(answer.status, text)));
    }
    if (isNew) main.replaceChildren(...next.childNodes); else morphChildren(main, next);
    delete main.dataset.older;
    byId('newer').hidden = true;
    describe(main.querySelector('[data-view]'));
    if (isNew) { window.scrollTo(0, 0); main.focus({ preventScroll: true }); }
    if (window.htmx) window.htmx.process(main);
  }

  // A list that was scrolled on to older rows stays as it is until its reader is back at the top, or asks.
  function renew() {
    if (main.dataset.older === undefined || window.scrollY === 0) load(false); else byId('newer').hidden = false;
  }

  // Says in the frame what the view says of itself.
  function describe(view) {
    if (!view) return;
    const { view: name, title, waiting, who, signedIn } = view.dataset;
    document.title = `${Number(waiting) > 0 ? `(${waiting}) ` : ''}${title} · ${document.body.dataset.name}`;
    for (const link of document.querySelectorAll('.side nav a')) {
      if (link.dataset.of.split(' ').includes(name)) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    }
    badge(waiting);
    byId('who').textContent = who;
    byId('open-sign-in').hidden = signedIn === 'true';
    byId('sign-out').hidden = signedIn !== 'true';
    const ask = byId('notify');
    if (ask) ask.hidden = !('Notification' in window) || Notification.permission !== 'default';
    showViews();
    hideDismissed();
  }

  function badge(waiting) {
    const shown = byId('waiting');
    shown.hidden = !(Number(waiting) > 0);
    shown.textContent = waiting;
    shown.setAttribute('aria-label', `${waiting} waiting for you`);
    if (Number(waiting) > known && notifies()) {
      // All tabs of this origin show one.
      const note = new Notification(`${waiting} waiting for you`, { body: document.body.dataset.name, tag: 'mesh-inbox' });
      note.onclick = () => { window.focus(); go('?view=inbox'); };
    }
    known = Number(waiting);
  }

  const notifies = () => 'Notification' in window && Notification.permission === 'granted';

  // ---- what this browser stores: views of tasks, and which failed tasks are dismissed

  function stored(name) {
    try { return JSON.parse(localStorage.getItem(name)) || []; } catch { return []; }
  }

  const store = (name, list) => localStorage.setItem(name, JSON.stringify(list.slice(-500)));

  function showViews() {
    const list = byId('saved-views');
    if (!list) return;
    list.replaceChildren(...stored(VIEWS).map(({ name, search }, at) => {
      const [item, link, drop] = ['li', 'a', 'button'].map((tag) => document.createElement(tag));
      link.textContent = name;
      link.setAttribute('href', `?${new URLSearchParams(search)}`);
      Object.assign(drop, { type: 'button', className: 'plain', textContent: 'Delete' });
      drop.dataset.forget = at;
      drop.setAttribute('aria-label', `Delete the view ${name}`);
      item.append(link, ' ', drop);
      return item;
    }));
  }

  function hideDismissed() {
    const dismissed = new Set(stored(DISMISSED)), all = [...main.querySelectorAll('[data-dismissable]')];
    for (const item of all) item.hidden = dismissed.has(item.dataset.dismissable);
    const section = main.querySelector('[data-dismissables]');
    if (section) section.hidden = all.every((item) => item.hidden);
  }

  function go(search) {
    if (/^https?:/.test(search)) return location.assign(search);
    history.pushState(null, '', search);
    load(true);
    listen();
  }

  function restart() { load(true); listen(); }

  // ---- morphing: what is the same stays, with its focus, selection, scroll position, open details and typed text

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.dataset.key || '' : '';
  const isLike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
  const isKept = (node, name) => name === 'open' || (name === 'class' && node.matches('.htmx-request'));

  function morph(node, next) {
    if (node.nodeType !== 1) {
      if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
      return;
    }
    if (node.dataset.own !== undefined || node.isEqualNode(next)) return;
    for (const { name } of [...node.attributes]) {
      if (!next.hasAttribute(name) && !isKept(node, name)) node.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (node.getAttribute(name) !== value && !isKept(node, name)) node.setAttribute(name, value);
    }
    morphChildren(node, next);
  }

  function morphChildren(node, next) {
    let at = node.firstChild;
    for (const wanted of [...next.childNodes]) {
      let found = at;
      if (keyOf(wanted)) while (found && !isLike(found, wanted)) found = found.nextSibling;
      else if (found && !isLike(found, wanted)) found = null;
      if (!found) { node.insertBefore(wanted, at); continue; }
      if (found === at) at = at.nextSibling; else node.insertBefore(found, at);
      morph(found, wanted);
    }
    while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
  }

  // ---- live

  function connected(isLive) {
    const state = byId('link-state'), text = state.querySelector('span:last-child');
    state.className = `link-state ${isLive ? 'is-ok' : 'is-bad'}`;
    text.textContent = isLive ? 'live' : 'no connection, trying again';
  }

  function changed(change) {
    if (change.waiting !== undefined) badge(String(change.waiting));
    const view = main.querySelector('[data-view]');
    const wants = view ? view.dataset.live.split(' ') : [];
    if (document.hidden || timer || !change.of.some((kind) => wants.includes(kind))) return;
    timer = setTimeout(() => { timer = 0; renew(); }, Math.max(0, lastLoad + SPACING - Date.now()));
  }

  function event(lines) {
    const data = lines.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('');
    if (data) changed(JSON.parse(data));
  }

  async function listen() {
    if (stream) stream.abort();
    stream = null;
    if (document.hidden && !notifies()) return;
    const own = stream = new AbortController();
    try {
      const answer = await request('console/stream' + location.search, { signal: own.signal });
      if (!answer.ok) throw new Error(answer.status);
      connected(true);
      retry = 1000;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ''; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split('\n\n');
        text = events.pop();
        events.forEach(event);
      }
    } catch { /* It is tried again. */ }
    if (stream !== own) return;
    connected(false);
    setTimeout(() => { if (stream === own) { renew(); listen(); } }, retry);
    retry = Math.min(retry * 2, MAX_RETRY);
  }

  // ---- times

  function ago(ms) {
    const seconds = Math.max(0, Math.round(ms / 1000));
    if (seconds < 5) return 'just now';
    const [count, unit] = seconds < 60 ? [seconds, 's'] : seconds < 3600 ? [seconds / 60, 'min']
      : seconds < 86400 ? [seconds / 3600, 'h'] : [seconds / 86400, 'd'];
    return `${Math.floor(count)} ${unit} ago`;
  }

  setInterval(() => {
    for (const time of document.querySelectorAll('time[data-ago]')) {
      const text = ago(Date.now() - Date.parse(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }, 10000);

  // ---- what a person does

  function formError(form, text) {
    const box = form.querySelector('.form-error');
    if (box) box.textContent = text; else form.append(alertBox('form-error', text));
  }

  function done(text) {
    const box = byId('done');
    box.textContent = text;
    box.hidden = false;
    clearTimeout(doneTimer);
    doneTimer = setTimeout(() => { box.hidden = true; }, 6000);
  }

  function theme(next) {
    if (next) document.documentElement.dataset.theme = next; else delete document.documentElement.dataset.theme;
    byId('theme').textContent = `Theme: ${next || 'system'}`;
  }

  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[href^="?"]');
    if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      return go(link.getAttribute('href'));
    }
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.copy !== undefined) {
      // Without a text of its own it copies what stands beside it.
      const source = button.dataset.copy || button.closest('.copied').querySelector('pre').textContent;
      navigator.clipboard.writeText(source).then(() => {
        const text = button.textContent;
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = text; }, 1500);
      });
    } else if (button.id === 'open-sign-in') byId('sign-in').showModal();
    else if (button.id === 'close-sign-in') byId('sign-in').close();
    else if (button.id === 'sign-out') signOut();
    else if (button.id === 'newer') load(true);
    else if (button.id === 'notify') Notification.requestPermission().then(() => { button.hidden = Notification.permission !== 'default'; });
    else if (button.dataset.forget !== undefined) {
      store(VIEWS, stored(VIEWS).filter((view, at) => String(at) !== button.dataset.forget));
      showViews();
    } else if (button.dataset.dismiss !== undefined) {
      store(DISMISSED, [...stored(DISMISSED), button.closest('[data-dismissable]').dataset.dismissable]);
      hideDismissed();
    }
    else if (button.id === 'theme') {
      const next = { system: 'light', light: 'dark', dark: '' }[localStorage.getItem('mesh-theme') || 'system'];
      localStorage.setItem('mesh-theme', next || 'system');
      theme(next);
    }
  });

  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (form.id === 'sign-in-form') { event.preventDefault(); signInByForm(form); return; }
    if (form.matches('[data-save-view]')) {
      event.preventDefault();
      const search = new URLSearchParams(location.search);
      search.delete('before');
      store(VIEWS, [...stored(VIEWS), { name: new FormData(form).get('name'), search: search.toString() }]);
      form.reset();
      return showViews();
    }
    if (!form.matches('[data-filter]')) return;
    event.preventDefault();
    const given = [...new FormData(form)].filter(([, value]) => value !== '');
    go(`?${new URLSearchParams(given)}`);
  });
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-filter] select')) event.target.form.requestSubmit();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target.matches('textarea')) event.target.form.requestSubmit();
  });

  document.addEventListener('htmx:configRequest', (event) => {
    if (key) event.detail.headers[HEADER] = key;
    event.detail.path = base + event.detail.path;
  });
  document.addEventListener('htmx:afterRequest', async (event) => {
    const { xhr, elt } = event.detail, form = elt.closest('form');
    if (!form) { if (event.detail.successful) main.dataset.older = ''; return; }
    if (!event.detail.successful) {
      return formError(form, xhr.status ? await reasonOf(xhr.status, xhr.responseText) : 'the node cannot be reached');
    }
    const box = form.querySelector('.form-error');
    if (box) box.remove();
    form.reset();
    const to = xhr.getResponseHeader('Mesh-Console-Go');
    if (form.dataset.done) done(form.dataset.done);
    if (to) go(to); else load(false);
  });

  window.addEventListener('popstate', () => { load(true); listen(); });
  window.addEventListener('hashchange', () => { if (location.hash.startsWith('#code=')) useLink().then(restart); });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) renew();
    listen();
  });
  if (tabs) tabs.addEventListener('message', (event) => { if (event.data.asks && key) tabs.postMessage({ key }); });

  const kept = localStorage.getItem('mesh-theme');
  theme(kept === 'light' || kept === 'dark' ? kept : '');
  useLink().then(askTabs).then(restart);
})();
