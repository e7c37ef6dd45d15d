// Asking and following, and everything around the tiles.
const SOON_MS = 200, ANYWAY_MS = 30000, STILL_MS = 40000, RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const link = {heard: Date.now(), answered: 0, failed: 0, timer: null, error: '', at: 0, asking: false, again: false};
let stream = null;

async function look() {
  if (link.asking) { link.again = true; return; }
  link.asking = true;
  clearTimeout(link.timer);
  link.timer = null;
  let wait = ANYWAY_MS;
  try {
    const since = fleet ? `?since=${encodeURIComponent(fleet.version)}` : '';
    const answer = await fetch(`fleet${since}`, {cache: 'no-store'});
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    take(await answer.json());
    link.answered = link.heard = Date.now();
    link.failed = 0;
    link.error = '';
    drawAll();
  } catch (error) {
    link.failed++;
    link.error = error.message;
    wait = RETRY_MS[Math.min(link.failed, RETRY_MS.length) - 1];
  }
  link.asking = false;
  if (link.again) { link.again = false; wait = SOON_MS; }
  if (!document.hidden) link.timer = setTimeout(look, wait);
  tick();
}
function lookSoon() {
  if (link.asking) { link.again = true; return; }
  clearTimeout(link.timer);
  link.timer = setTimeout(look, SOON_MS);
}
function follow() {
  if (stream) stream.close();
  stream = new EventSource('fleet/events');
  stream.onopen = () => { link.heard = Date.now(); tick(); };
  stream.addEventListener('fleet_changed', () => { link.heard = Date.now(); lookSoon(); });
  stream.addEventListener('still', () => { link.heard = Date.now(); tick(); });
  stream.onerror = tick;
}
function tick() {
  const isThere = stream && stream.readyState === EventSource.OPEN && !link.failed && Date.now() - link.heard < STILL_MS;
  const age = link.answered ? (Date.now() - link.answered) / 1000 : 0;
  byId('lamp').className = `lamp ${isThere ? 'on' : 'off'}`;
  const source = fleet && fleet.source;
  const still = source && !source.live ? `as of ${source.at ? `${new Date(source.at * 1000).toLocaleString()}` : 'its capture'}` : 'live';
  byId('live').textContent = isThere ? still : fleet ? 'disconnected' : 'connecting';
  const isLost = !isThere && (age > 5 || link.failed > 1);
  byId('lost').hidden = !isLost;
  if (isLost) fill('lost', make('b', fleet ? `No answer for ${span(age)}` : 'No answer yet'),
    make('span', `${link.error || 'the connection was lost'}; what is shown is old. Trying again.`, 'wraps'));
  else fill('lost');
  if (stream && stream.readyState === EventSource.CLOSED && !document.hidden && Date.now() - link.at > 5000) {
    link.at = Date.now();
    follow();
  }
}
function fact(text, value) {
  const found = make('span', '', 'fact');
  found.append(make('b', value), ` ${text}`);
  return found;
}
function options(id, first, values, chosen) {
  const select = byId(id), text = JSON.stringify([first, values]);
  if (select.dataset.has !== text) {
    fill(select, ...[['', first], ...values].map(([value, words]) => { const one = make('option', words); one.value = value; return one; }));
    select.dataset.has = text;
  }
  select.value = chosen;
}
function drawAll() {
  const tiles = [...known.values()], total = (name, at) => tiles.reduce((all, tile) => all + sum(tile, name, at), 0);
  byId('name').textContent = fleet.source.name || 'Fleet';
  document.title = `${fleet.source.name || 'Fleet'} – numalign`;
  byId('version').textContent = ` numalign ${fleet.source.version}`;
  const number = name => tiles.filter(ONLY[name]).length;
  const facts = [fact(known.size === 1 ? 'host' : 'hosts', known.size), fact(`of ${total('cpus', 1)} CPUs free`, total('cpus', 0)),
    fact(`of ${size(total('memory', 1))} free`, size(total('memory', 0)))];
  for (const name of Object.keys(ONLY)) if (number(name)) facts.push(fact(ONLY_WORDS[name], number(name)));
  for (const note of fleet.source.notes || []) facts.push(make('span', note, 'fact'));
  fill('facts', ...facts);
  const listOf = pick => [...new Set(tiles.map(pick).filter(Boolean))].sort(byName).map(one => [one, one]);
  options('by-pool', 'all pools', listOf(tile => tile.pool), choice.pool);
  options('by-policy', 'all policies', listOf(tile => tile.policy), choice.policy);
  const orders = Object.entries(ORDERS).slice(1).map(([name, [words]]) => [name, words]);
  const fits = fleet.shapes.map(shape => [`fits:${shape.name}`, `most room for ${shape.name}`]);
  options('sort', ORDERS.name[0], [...orders, ...fits], choice.order === 'name' ? '' : choice.order);
  for (const one of byId('only').children) {
    const name = one.dataset.only;
    one.textContent = `${ONLY_WORDS[name]} ${number(name)}`;
    one.setAttribute('aria-pressed', choice.only.has(name));
  }
  if (byId('filter').value !== choice.text && document.activeElement !== byId('filter')) byId('filter').value = choice.text;
  byId('problems').hidden = !fleet.problems.length;
  fill('problems', ...fleet.problems.map(text => make('li', text)));
  drawShapes();
  drawPending();
  drawShown();
}
function drawShown() {
  chooseShown();
  byId('hosts-count').textContent = shown.length === known.size ? `${known.size}` : `${shown.length} of ${known.size}`;
  drawHosts();
}
function drawShapes() {
  byId('shapes-section').hidden = !fleet.shapes.length;
  fill('shapes', ...fleet.shapes.map(shape => {
    const box = make('div', '', 'card');
    const amounts = Object.entries(shape.amounts).map(([name, amount]) => `${amount} ${name}`).join(', ');
    box.append(make('span', shape.name, 'wraps'), make('b', shape.fits), make('span', `on ${count(shape.hosts, 'host')}; ${amounts}`, 'soft wraps'));
    return box;
  }));
}
function drawPending() {
  byId('pending-section').hidden = !fleet.pending.length;
  const left = fleet.pendingTotal - fleet.pending.length;
  byId('pending-count').textContent = `${fleet.pendingTotal}${left ? `, the first ${fleet.pending.length} are shown` : ''}`;
  const rows = fleet.pending.map(pod => {
    const name = make('span', '', 'wraps');
    name.append(`${pod.namespace}/${pod.name}`);
    if (pod.owner) name.append(document.createElement('br'), make('span', pod.owner, 'soft'));
    return [name, pod.asks, make('span', pod.why || 'nobody has said why yet', pod.why ? 'wraps' : 'soft')];
  });
  if (rows.length) fill('pending', table(['pod', 'asks for', 'why it waits'], rows)); else fill('pending');
}

// What is typed, pressed, scrolled and resized.

function chose() { keepChoice(); drawShown(); }
byId('filter').addEventListener('input', () => { choice.text = byId('filter').value; chose(); });
for (const [id, name] of [['by-pool', 'pool'], ['by-policy', 'policy'], ['sort', 'order']])
  byId(id).addEventListener('input', () => { choice[name] = byId(id).value || (name === 'order' ? 'name' : ''); chose(); });
for (const name of Object.keys(ONLY)) {
  const one = button(ONLY_WORDS[name], 'plain', () => {
    if (!choice.only.delete(name)) choice.only.add(name);
    one.setAttribute('aria-pressed', choice.only.has(name));
    chose();
  });
  one.dataset.only = name;
  one.setAttribute('aria-pressed', 'false');
  byId('only').append(one);
}
let frame = null;
const redraw = () => { if (frame === null) frame = requestAnimationFrame(() => { frame = null; if (fleet) drawHosts(); }); };
addEventListener('scroll', redraw, {passive: true});
new ResizeObserver(() => { measure(); redraw(); }).observe(byId('hosts'));
addEventListener('resize', redraw);
matchMedia('print').addEventListener('change', () => { if (fleet) drawHosts(); });
addEventListener('hashchange', () => { readChoice(); byId('filter').value = choice.text; if (fleet) drawAll(); });
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest('input, select');
  if (event.key === '/' && !field) { byId('filter').focus(); event.preventDefault(); return; }
  if (event.key === 'Escape' && field && field.id === 'filter') { field.value = choice.text = ''; chose(); return; }
  const name = nameOf(event.target), at = name ? shown.findIndex(tile => tile.name === name) : -1;
  if (field && field.id === 'filter' && event.key === 'ArrowDown') { focusHost(0); event.preventDefault(); return; }
  if (at < 0) return;
  const {columns} = grid, page = columns * Math.max(1, Math.floor(innerHeight / (grid.height + GAP)));
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns,
    Home: 0, End: shown.length - 1, PageDown: at + page, PageUp: at - page}[event.key];
  if (to === undefined) return;
  focusHost(to);
  event.preventDefault();
});
document.addEventListener('visibilitychange', () => {
  // A hidden page holds no stream and asks nothing.
  if (document.hidden) { clearTimeout(link.timer); link.timer = null; if (stream) stream.close(); } else { follow(); look(); }
});
readChoice();
measure();
setInterval(tick, 1000);
look();
follow();
