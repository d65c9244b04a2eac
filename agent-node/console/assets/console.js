// The page's script: signs in, loads views and morphs them in place, and reads one stream of changes while the page is seen.
'use strict';
(() => {
  const STORE = 'mesh-console-key', HEADER = 'Mesh-Console-Key', VIEWS = 'mesh-views', DISMISSED = 'mesh-dismissed';
  // Of fragments: at most two a second.
  const SPACING = 500, MAX_RETRY = 5000, BUSY = 429;
  const byId = (id) => document.getElementById(id), main = byId('main');
  const base = location.pathname.endsWith('/') ? '' : location.pathname.split('/').pop() + '/';
  // Other tabs of this origin, port included, hand on the key: a link opened in a new tab stays signed in.
  const tabs = 'BroadcastChannel' in window ? new BroadcastChannel(STORE) : null;
  let key = sessionStorage.getItem(STORE), stream = null, isLive = false, retry = 1000, timer = 0, doneTimer = 0, known = Infinity;
  let shown = '', turn = 0, isLoading = false, isStale = false, lastLoad = 0;

  function keep(value) {
    key = value;
    if (key) sessionStorage.setItem(STORE, key); else sessionStorage.removeItem(STORE);
  }

  function request(path, options = {}) {
    const headers = { ...options.headers, ...(key && { [HEADER]: key }) };
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
    if (tabs) tabs.postMessage({ fresh: key });
  }

  async function useLink() {
    const code = new URLSearchParams(location.hash.slice(1)).get('code');
    if (!code) return;
    history.replaceState(null, '', location.pathname + location.search);
    try { await signIn(asJson({ code })); } catch (error) { done(`Not signed in: ${error.message}`, true); }
  }

  async function askTabs() {
    if (key || !tabs) return;
    tabs.postMessage({ asks: true });
    await new Promise((resolve) => setTimeout(resolve, 120));
  }

  // Another tab may have signed in since.
  async function loseSession() {
    const old = key;
    keep(null);
    await askTabs();
    if (key === old) keep(null);
  }

  async function signInByForm(form) {
    const given = new FormData(form), secret = given.get('secret');
    const headers = given.get('kind') === 'key' ? { 'X-API-Key': secret } : { Authorization: `Bearer ${secret}` };
    try {
      await signIn({ method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: '{}' });
    } catch (error) { return formError(form, error.message); }
    form.reset();
    byId('sign-in').close();
    restart();
  }

  const signOut = () => request('console/sign-out', asJson({})).catch(() => null).then(() => { keep(null); restart(); });

  // ---- views

  function alertBox(className, text) {
    const box = document.createElement('div');
    box.setAttribute('role', 'alert');
    return Object.assign(box, { className, textContent: text });
  }

  async function load(isNew) {
    // One at a time: a slow answer is shown before the next is asked for.
    if (!isNew && isLoading) { isStale = true; return; }
    const own = ++turn;
    [isLoading, isStale, lastLoad] = [true, false, Date.now()];
    if (isNew) shown = location.search;
    let answer, text;
    try {
      answer = await request('console/view' + location.search, { headers: { Accept: 'text/html' } });
      text = await answer.text();
    } catch { answer = null; }
    if (own !== turn) return;
    isLoading = false;
    const isWell = answer !== null && answer.status < BUSY;
    if (isLive || !isWell) connected(isWell);
    if (!isWell) setTimeout(() => { if (own === turn && !document.hidden) load(isNew); }, 2000);
    if (!isNew && isDeep()) return renew();
    if (!answer || !isNew && !isWell) return;
    if (answer.status === 401 && key) { await loseSession(); return load(isNew); }
    const next = document.createElement('main');
    if ((answer.headers.get('Content-Type') || '').startsWith('text/html')) {
      next.append(...new DOMParser().parseFromString(text, 'text/html').body.childNodes);
    } else next.append(alertBox('notice bad', await reasonOf(answer.status, text)));
    if (isNew) main.replaceChildren(...next.childNodes); else morphChildren(main, next);
    delete main.dataset.older;
    byId('newer').hidden = true;
    describe(main.querySelector('[data-view]'));
    if (isNew) { window.scrollTo(0, 0); main.focus({ preventScroll: true }); }
    if (window.htmx) window.htmx.process(main);
    if (isStale) later();
  }

  // A list that was scrolled on to older rows stays as it is until its reader is back at the top, or asks.
  const isDeep = () => main.dataset.older !== undefined && window.scrollY > 0;
  const renew = async () => { if (isDeep()) byId('newer').hidden = false; else await load(false); };

  function later() {
    if (!timer) timer = setTimeout(() => { timer = 0; renew(); }, Math.max(0, lastLoad + SPACING - Date.now()));
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
    const text = `${waiting} waiting for you`;
    Object.assign(byId('waiting'), { hidden: !(Number(waiting) > 0), textContent: waiting, ariaLabel: text });
    if (Number(waiting) > known && notifies()) {
      const note = new Notification(text, { body: document.body.dataset.name, tag: 'mesh-inbox' });
      note.onclick = () => { window.focus(); go('?view=inbox'); };
    }
    known = Number(waiting);
  }

  const notifies = () => 'Notification' in window && Notification.permission === 'granted';

  // ---- what this browser stores: views of tasks, and which failed tasks are dismissed

  const stored = (name) => JSON.parse(localStorage.getItem(name)) || [];
  const store = (name, list) => localStorage.setItem(name, JSON.stringify(list.slice(-500)));

  function showViews() {
    const list = byId('saved-views');
    if (!list) return;
    list.replaceChildren(...stored(VIEWS).map(({ name, search }, at) => {
      const [item, link, drop] = ['li', 'a', 'button'].map((tag) => document.createElement(tag));
      link.textContent = name;
      link.setAttribute('href', `?${new URLSearchParams(search)}`);
      Object.assign(drop, { type: 'button', className: 'plain', textContent: 'Delete', ariaLabel: `Delete the view ${name}` });
      drop.dataset.forget = at;
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
    restart();
  }

  function restart() { load(true); listen(); }

  // ---- morphing: what is the same stays, with its focus, selection, scroll position, open details and typed text

  const keyOf = (node) => node.nodeType === 1 ? node.getAttribute('id') || node.dataset.key || '' : '';
  const isLike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
  // A form that is on its way, was refused, or has typed text stays until its reader has seen what becomes of it.
  const KEPT = '.htmx-request, .form-error', FIELDS = 'textarea, input:not([type=hidden])';
  const isTyped = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
  const stays = (node) => node.nodeType === 1
    && (node.matches(KEPT) || node.querySelector(KEPT) || [...node.querySelectorAll(FIELDS)].some(isTyped));
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
    const keys = new Set([...next.childNodes].map(keyOf));
    for (const gone of [...node.childNodes]) if (keyOf(gone) && !keys.has(keyOf(gone)) && !stays(gone)) gone.remove();
    let at = node.firstChild;
    for (const wanted of [...next.childNodes]) {
      while (at && keyOf(at) && !keys.has(keyOf(at))) at = at.nextSibling;
      let found = at;
      if (keyOf(wanted)) while (found && !isLike(found, wanted)) found = found.nextSibling;
      else if (found && !isLike(found, wanted)) found = null;
      if (!found) { node.insertBefore(wanted, at); continue; }
      if (found === at) at = at.nextSibling; else node.insertBefore(found, at);
      morph(found, wanted);
    }
    while (at) { const gone = at; at = at.nextSibling; if (!stays(gone)) gone.remove(); }
  }

  // ---- live

  function connected(isOk) {
    byId('link-state').className = `link-state ${isOk ? 'is-ok' : 'is-bad'}`;
    byId('link-state').lastElementChild.textContent = isOk ? 'live' : 'no connection, trying again';
  }

  function changed(change) {
    if (change.waiting !== undefined) badge(String(change.waiting));
    const view = main.querySelector('[data-view]'), wants = view ? view.dataset.live.split(' ') : [];
    if (!document.hidden && change.of.some((kind) => wants.includes(kind))) later();
  }

  function listen() {
    if (stream) stream.abort();
    const own = stream = new AbortController();
    if (!document.hidden) return read(own);
    // One hidden tab notifies for all: browsers open six connections to a server.
    if (notifies()) navigator.locks.request('mesh-notifies', { signal: own.signal }, () => read(own)).catch(() => null);
  }

  async function read(own) {
    try {
      const answer = await request('console/stream' + location.search, { signal: own.signal });
      if (!answer.ok) throw new Error(answer.status);
      connected(isLive = true);
      retry = 1000;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ''; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split('\n\n');
        text = events.pop();
        // A change is one line; the others keep the connection open.
        for (const data of events.filter((line) => line.startsWith('data: '))) changed(JSON.parse(data.slice(6)));
      }
    } catch { /* It is tried again. */ }
    if (stream !== own) return;
    connected(isLive = false);
    setTimeout(async () => { if (stream === own) await renew(); if (stream === own) listen(); }, retry);
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
    for (const time of document.querySelectorAll('time[data-ago]')) time.textContent = ago(Date.now() - Date.parse(time.dateTime));
  }, 10000);

  // ---- what a person does

  function formError(form, text) {
    const box = form.querySelector('.form-error');
    if (box) box.textContent = text; else form.append(alertBox('form-error', text));
  }

  function done(text, isBad) {
    Object.assign(byId('done'), { textContent: text, hidden: false, className: isBad ? 'done bad' : 'done' });
    clearTimeout(doneTimer);
    doneTimer = setTimeout(() => { byId('done').hidden = true; }, isBad ? 30000 : 6000);
  }

  async function save({ dataset }) {
    const answer = await request(dataset.save).catch(() => null);
    if (!answer || !answer.ok) return done(answer ? await reasonOf(answer.status, await answer.text()) : 'The node cannot be reached.', true);
    const link = document.createElement('a');
    Object.assign(link, { href: URL.createObjectURL(await answer.blob()), download: dataset.name });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function theme(next) {
    if (next) document.documentElement.dataset.theme = next; else delete document.documentElement.dataset.theme;
    byId('theme').textContent = `Theme: ${next || 'system'}`;
    localStorage.setItem('mesh-theme', next);
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
      navigator.clipboard.writeText(source).then(() => done('Copied.'));
    } else if (button.dataset.save) save(button);
    else if (button.id === 'open-sign-in') byId('sign-in').showModal();
    else if (button.id === 'close-sign-in') byId('sign-in').close();
    else if (button.id === 'sign-out') signOut();
    else if (button.id === 'newer') load(true);
    else if (button.id === 'notify') Notification.requestPermission().then(() => { button.hidden = true; });
    else if (button.dataset.forget !== undefined) {
      store(VIEWS, stored(VIEWS).filter((view, at) => String(at) !== button.dataset.forget));
      showViews();
    } else if (button.dataset.dismiss !== undefined) {
      store(DISMISSED, [...stored(DISMISSED), button.closest('[data-dismissable]').dataset.dismissable]);
      hideDismissed();
    } else if (button.id === 'theme') theme({ '': 'light', light: 'dark', dark: '' }[document.documentElement.dataset.theme || '']);
  });

  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (!form.matches('#sign-in-form, [data-save-view], [data-filter]')) return;
    event.preventDefault();
    if (form.id === 'sign-in-form') return signInByForm(form);
    if (form.matches('[data-save-view]')) {
      const search = new URLSearchParams(location.search);
      search.delete('before');
      store(VIEWS, [...stored(VIEWS), { name: form.elements.name.value, search: `${search}` }]);
      form.reset();
      return showViews();
    }
    go(`?${new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ''))}`);
  });
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-filter] select')) event.target.form.requestSubmit();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target.matches('textarea')
      && !event.target.form.querySelector('button[hidden]')) event.target.form.requestSubmit();
  });

  document.addEventListener('htmx:configRequest', ({ detail }) => {
    Object.assign(detail.headers, key && { [HEADER]: key });
    detail.path = base + detail.path;
  });
  document.addEventListener('htmx:afterRequest', async (event) => {
    const { xhr, elt } = event.detail, form = elt.closest('form');
    if (!form) return;
    const areas = [...form.querySelectorAll('textarea')], typed = areas.map((area) => area.value);
    if (!event.detail.successful) {
      for (const area of areas) if (area.value === area.defaultValue && area.sent) area.value = area.sent;
      return formError(form, xhr.status ? await reasonOf(xhr.status, xhr.responseText) : 'the node cannot be reached');
    }
    form.querySelectorAll('.form-error').forEach((box) => box.remove());
    form.reset();
    areas.forEach((area, at) => { area.value = typed[at]; });
    const to = xhr.getResponseHeader('Mesh-Console-Go');
    if (form.dataset.done) done(form.dataset.done);
    if (to && to !== location.search) go(to); else load(false);
  });
  document.addEventListener('htmx:beforeSend', ({ detail: { elt } }) => {
    const form = elt.closest('form');
    if (!form) { main.dataset.older = ''; return; }
    // What is typed while it is on its way is the next.
    for (const area of form.querySelectorAll('textarea')) [area.sent, area.value] = [area.value, area.defaultValue];
  });

  window.addEventListener('popstate', () => { if (location.search !== shown) restart(); });
  window.addEventListener('hashchange', () => { if (location.hash.startsWith('#code=')) useLink().then(restart); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) renew(); listen(); });
  if (tabs) tabs.addEventListener('message', ({ data }) => {
    if (data.asks && key) tabs.postMessage({ key });
    const given = data.fresh || (key ? null : data.key);
    if (given && given !== key) { keep(given); renew(); listen(); }
  });

  theme(['light', 'dark'].find((name) => name === localStorage.getItem('mesh-theme')) || '');
  useLink().then(askTabs).then(restart);
})();
