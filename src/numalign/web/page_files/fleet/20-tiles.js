// The hosts as tiles. Only those in sight are in the page, so that a thousand cost as much as fifty.
const GAP = 8, WIDTH_MIN = 232, BEYOND = 400;
const drawnTiles = new Map();  // name -> {element, tile, place}
let grid = {columns: 1, width: WIDTH_MIN, height: 120};

function barsOf(nodes) {
  const picture = drawn('svg', {viewBox: `0 0 ${nodes.length * 10} 20`, preserveAspectRatio: 'none',
    class: 'bars', 'aria-hidden': 'true'});
  const paths = {back: '', cpu: '', memory: ''};
  nodes.forEach((node, at) => {
    for (const [name, [free, all], x] of [['cpu', node.cpus, at * 10 + .5], ['memory', node.memory, at * 10 + 5]]) {
      if (!all) continue;
      const tall = 20 * free / all;
      paths.back += `M${x} 0h4v20h-4z`;
      if (tall) paths[name] += `M${x} ${(20 - tall).toFixed(2)}h4v${tall.toFixed(2)}h-4z`;
    }
  });
  for (const [name, d] of Object.entries(paths)) if (d) picture.append(drawn('path', {d, class: name}));
  return picture;
}
function line(left, right) {
  const found = make('span', '', 'line');
  found.append(make('span', left), make('span', right, 'soft'));
  return found;
}
function sayings(tile) {
  const found = [];
  if (tile.unready) found.push([tile.unready, 'bad']);
  if (tile.refused) found.push([`${count(tile.refused, 'pod')} refused here`, 'bad']);
  if (tile.stale) found.push([tile.stale, 'warn']);
  for (const text of tile.stranded || []) found.push([text, 'warn']);
  return found;
}
function drawTile(tile) {
  const found = make('div', '', 'host'), nodes = tile.nodes || [], told = sayings(tile);
  // Its link is as large as the tile; a host that cannot be opened can still be gone to.
  const open = make(tile.exact ? 'a' : 'b', tile.name, 'open');
  if (tile.exact) open.href = `hosts/${encodeURIComponent(tile.name)}/`; else open.tabIndex = -1;
  found.setAttribute('role', 'listitem');
  found.dataset.name = tile.name;
  if (told.length) found.classList.add(`is-${told[0][1]}`);
  found.append(open);
  found.append(line([tile.pool, (tile.policy || '').replace(', container', '')].filter(Boolean).join(' · ') || 'policy not known', count(tile.pods || 0, 'pod')));
  if (nodes.length) {
    found.append(barsOf(nodes));
    const devices = {};
    for (const node of nodes)
      for (const [name, [free]] of Object.entries(node.devices || {})) devices[name] = (devices[name] || 0) + free;
    const others = Object.entries(devices).filter(([name, free]) => free && !name.startsWith('hugepages-'))
      .map(([name, free]) => `${free} ${plainName(name)}`);
    found.append(line(`${sum(tile, 'cpus', 0)} of ${count(sum(tile, 'cpus', 1), 'CPU')} free`, `${size(sum(tile, 'memory', 0))} free`));
    if (!told.length && others.length) found.append(make('span', others.join(', ') + ' free', 'say soft'));
  }
  for (const [text, kind] of told.slice(0, nodes.length ? 1 : 3)) {
    const say = make('span', told.length > 1 && nodes.length ? `${text} (+${told.length - 1})` : text, `say ${kind}`);
    say.title = told.map(one => one[0]).join('\n');
    found.append(say);
  }
  return found;
}
function measure() {
  const room = byId('hosts').clientWidth || WIDTH_MIN;
  const columns = Math.max(1, Math.floor((room + GAP) / (WIDTH_MIN + GAP)));
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  grid = {columns, width: (room - GAP * (columns - 1)) / columns, height: 7.6 * rem};
}
function place(found, at) {
  const row = Math.floor(at / grid.columns), column = at % grid.columns;
  found.style.width = `${grid.width}px`;
  found.style.transform = `translate(${column * (grid.width + GAP)}px, ${row * (grid.height + GAP)}px)`;
  found.setAttribute('aria-posinset', at + 1);
  found.setAttribute('aria-setsize', shown.length);
}
function range(all) {
  if (all) return [0, shown.length];
  const top = byId('hosts').getBoundingClientRect().top, step = grid.height + GAP;
  const first = Math.max(0, Math.floor((-top - BEYOND) / step)) * grid.columns;
  const last = Math.ceil((innerHeight - top + BEYOND) / step) * grid.columns;
  return [Math.min(first, shown.length), Math.max(0, Math.min(last, shown.length))];
}
function drawHosts({keep = null} = {}) {
  const box = byId('hosts'), [first, last] = range(matchMedia('print').matches), wanted = new Map();
  for (let at = first; at < last; at++) wanted.set(shown[at].name, at);
  if (keep !== null) wanted.set(shown[keep].name, keep);
  const focused = nameOf(document.activeElement);
  if (focused && !wanted.has(focused)) {
    const at = shown.findIndex(tile => tile.name === focused);
    if (at >= 0) wanted.set(focused, at);
  }
  for (const [name, one] of drawnTiles) if (!wanted.has(name)) { one.element.remove(); drawnTiles.delete(name); }
  const order = [...wanted].sort((a, b) => a[1] - b[1]);
  let before = null;
  for (const [name, at] of order) {
    const tile = shown[at];
    let one = drawnTiles.get(name);
    if (!one || one.tile !== tile) {
      const element = drawTile(tile), hadFocus = one && one.element.contains(document.activeElement);
      if (one) one.element.replaceWith(element);
      one = {element, tile};
      drawnTiles.set(name, one);
      if (hadFocus) element.firstChild.focus({preventScroll: true});
    }
    // In the order of the list, so that the tabulator goes from one to the next.
    const next = before ? before.nextSibling : box.firstChild;
    if (next !== one.element) box.insertBefore(one.element, next);
    place(one.element, at);
    before = one.element;
  }
  const rows = Math.ceil(shown.length / grid.columns);
  box.style.height = rows ? `${rows * (grid.height + GAP)}px` : 'auto';
  let none = box.querySelector('.none');
  if (!shown.length && !none) { none = make('p', '', 'soft none'); none.setAttribute('role', 'listitem'); box.append(none); }
  if (none) { if (shown.length) none.remove(); else none.textContent = known.size ? 'no host matches the filter' : 'no hosts are known'; }
}
function nameOf(element) {
  const host = element && element.closest('.host');
  return host ? host.dataset.name : '';
}
function focusHost(at) {
  const bound = Math.max(0, Math.min(shown.length - 1, at));
  if (!shown.length) return;
  drawHosts({keep: bound});
  const {element} = drawnTiles.get(shown[bound].name);
  element.firstChild.focus({preventScroll: true});
  element.scrollIntoView({block: 'nearest'});
}
