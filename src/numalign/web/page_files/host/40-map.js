// The machine: sockets, NUMA nodes, caches, cores, CPUs, memory and devices, and who has what.
// It is built once for a machine; afterwards only what changed is touched.
const map = {text: '', cells: new Map(), nodes: new Map(), grids: [], digits: 1};
const WHO_SHOWN = 12, DEVICES_NAMED = 8;

function buildMap(layout) {
  map.cells.clear(); map.nodes.clear(); map.grids = [];
  const all = layout.sockets.flatMap(s => numbers(s.cpus));
  map.digits = String(Math.max(0, ...all)).length;
  const sockets = make('div', '', 'sockets');
  map.sockets = sockets;
  map.nodeGrids = [];
  for (const socket of layout.sockets) sockets.append(socketBox(socket, layout));
  const loose = layout.memoryNodes.length ? memoryOnly(layout.memoryNodes) : null;
  const nowhere = layout.pci.filter(one => one.node === null);
  const pci = nowhere.length ? make('p', `At no NUMA node: ${pciText(nowhere)}`, 'pci soft') : null;
  fill('map', sockets, loose, pci);
  byId('shape').textContent = layout.shape;
  arrange();
}
function socketBox(socket, layout) {
  const box = make('section', '', 'socket'), head = make('h3', `Socket ${socket.id}`);
  head.append(make('span', `${count(socket.cores, 'core')}, ${count(numbers(socket.cpus).length, 'CPU')}` +
    (socket.sharedCaches.length ? `, ${socket.sharedCaches.join(', ')}` : ''), 'soft'));
  box.append(head);
  for (const die of socket.dies) {
    if (die.die !== null) box.append(make('p', `Die ${die.die}`, 'soft die'));
    const grid = make('div', '', 'nodes');
    map.nodeGrids.push({grid, number: die.nodes.length});
    for (const part of die.nodes) grid.append(nodeBox(part, layout));
    box.append(grid);
  }
  if (socket.memoryNodes.length) box.append(memoryOnly(socket.memoryNodes));
  return box;
}
function nodeBox(part, layout) {
  const box = make('section', '', 'node'), head = make('div', '', 'head');
  const cpus = part.caches.flatMap(cache => cache.cores.flatMap(numbers));
  const parts = {box, cpus, sum: make('span', '', 'sum')};
  if (part.node === null) head.append(make('h4', 'On no NUMA node'));
  else {
    const title = make('h4'), name = `Node ${part.node}${part.whole ? '' : ' (in part)'}`;
    title.append(button(name, 'node-name', () => choose({node: part.node})));
    title.firstChild.dataset.node = part.node;
    title.firstChild.title = `NUMA node ${part.node}: details`;
    head.append(title);
    box.dataset.node = part.node;
    parts.far = make('span', '', 'far');
    head.append(parts.far);
  }
  head.append(parts.sum);
  parts.caches = make('div', '', 'caches');
  parts.caches.setAttribute('role', 'img');
  for (const cache of part.caches) parts.caches.append(cacheBox(cache));
  map.grids.push({grid: parts.caches, part});
  box.append(head, parts.caches);
  if (part.node !== null && part.first) {
    for (const name of ['memory', 'devices', 'stranded', 'who', 'fits']) {
      parts[name] = make(name === 'who' ? 'ul' : name === 'stranded' || name === 'fits' ? 'p' : 'div', '', name);
      box.append(parts[name]);
    }
    const own = layout.pci.filter(one => one.node === part.node);
    if (own.length) parts.devices.after(make('p', pciText(own), 'pci soft'));
  }
  const known = map.nodes.get(part.node);
  map.nodes.set(part.node, known ? {...known, others: [...known.others || [], parts]} : parts);
  return box;
}
function cacheBox(cache) {
  const box = make('div', '', cache.name ? 'cache named' : 'cache'), cores = make('div', '', 'cores');
  if (cache.name) box.append(make('span', cache.name, 'caption'));
  for (const text of cache.cores) {
    const core = make('span', '', 'core');
    for (const cpu of numbers(text)) {
      const cell = make('i', cpu, 'cpu');
      cell.dataset.cpu = cpu;
      map.cells.set(cpu, cell);
      core.append(cell);
    }
    cores.append(core);
  }
  box.append(cores);
  return box;
}
function memoryOnly(ids) {
  const box = make('div', '', 'memory-nodes');
  box.append(make('h4', 'NUMA nodes without CPUs'));
  const list = make('div', '', 'chips');
  for (const id of ids) {
    const chip = button('', 'chip memory-node', () => choose({node: id}));
    const bar = make('span', '', 'bar');
    const parts = {box: chip, cpus: [], chip: make('span', ''), bar, far: make('span', '', 'far')};
    chip.append(make('b', `Node ${id}`), parts.chip, parts.far, bar);
    chip.dataset.node = id;
    map.nodes.set(id, parts);
    list.append(chip);
  }
  const empty = make('p', '', 'soft');
  box.append(list, empty);
  box.update = found => {
    const bare = ids.filter(id => { const node = found.get(id); return node && isBare(node) && !node.devices; });
    for (const id of ids) map.nodes.get(id).box.hidden = bare.includes(id);
    empty.textContent = bare.length ? `empty: ${nodesWord(bare)}` : '';
  };
  map.folds = [...(map.folds || []), box];
  return box;
}
function pciText(found) {
  const kinds = new Map();
  for (const one of found) {
    const [noun, ...name] = one.name.split(' ');
    const key = one.count > 1 || !name.length ? one.name : noun;
    const known = kinds.get(key) || {count: 0, names: []};
    known.count += one.count;
    if (name.length && one.count === 1) known.names.push(name.join(' '));
    kinds.set(key, known);
  }
  return [...kinds].map(([noun, one]) => (one.count > 1 ? `${one.count} × ` : '') + noun +
    (one.names.length ? ' ' + one.names.join(', ') : '')).join(' · ');
}
function arrange() {
  if (!map.sockets) return;
  const width = byId('map').clientWidth, sockets = map.sockets.children.length;
  if (!width) return;
  const most = Math.max(...map.nodeGrids.map(one => one.number));
  const least = most > 1 && width > 1000 ? Math.max(SOCKET_LEAST, 2 * NODE_LEAST + 24) : SOCKET_LEAST;
  const across = inRow(sockets, (width + 8) / (least + 8));
  map.sockets.style.setProperty('--n', across);
  const socket = (width - 8 * (across - 1)) / across - 18;
  for (const one of map.nodeGrids)
    one.grid.style.setProperty('--n', inRow(one.number, (socket + 6) / (NODE_LEAST + 6)));
  const widths = map.grids.map(one => one.grid.clientWidth);
  map.grids.forEach(({grid, part}, at) => {
    const threads = Math.max(...part.caches.flatMap(c => c.cores.map(t => numbers(t).length)));
    const cores = Math.max(...part.caches.map(c => c.cores.length));
    const coreWidth = threads * (map.digits * 6 + 3) + 1;
    const found = arranged(widths[at], part.caches.length, cores, coreWidth,
      part.caches.some(c => c.name));
    grid.style.setProperty('--across', found.across);
    grid.style.setProperty('--cores', found.cores);
  });
}

// What changes.

function drawMap(view) {
  const {node, pods} = view, text = JSON.stringify(node.layout);
  if (map.text !== text) {
    map.text = text;
    map.folds = [];
    buildMap(node.layout);
  }
  const byNode = new Map(node.nodes.map(one => [one.id, one]));
  const largest = new Map(node.largest.map(one => [one.node, one]));
  const devices = devicesByNode(node.devices), owners = holders(node, pods);
  const names = new Map(pods.map(pod => [pod.uid, pod]));
  for (const one of node.nodes) {
    drawCells(one, owners, names);
    const parts = map.nodes.get(one.id);
    if (!parts) continue;
    const own = devices.get(one.id) || [];
    const key = JSON.stringify([one.cpus, one.memory, one.memoryGroup, one.occupants, one.stranded,
      largest.get(one.id), own, own.map(d => d.holder && lookOf(d.holder.uid).code)]);
    if (parts.key === key) continue;
    parts.key = key;
    if (parts.chip) drawChip(parts, one); else drawNode(parts, one, own, largest.get(one.id), names);
  }
  for (const fold of map.folds) fold.update(byNode);
}
function drawCells(one, owners, names) {
  const free = new Set(numbers(one.cpus.free)), kept = new Set(numbers(one.cpus.reserved));
  const shared = new Set(numbers(one.cpus.shared));
  for (const cpu of numbers(one.cpus.all)) {
    const cell = map.cells.get(cpu), owner = owners.get(cpu);
    if (!cell) continue;
    const kind = owner ? 'own' : kept.has(cpu) ? shared.has(cpu) ? 'kept pool' : 'kept'
      : free.has(cpu) ? 'free' : shared.has(cpu) ? 'pool' : 'kept';
    const key = owner ? `${owner.uid} ${owner.container} ${owner.shade}` : kind;
    if (cell.key === key) continue;
    cell.key = key;
    cell.className = `cpu ${owner ? '' : kind}`;
    delete cell.dataset.uid; delete cell.dataset.code;
    if (owner) paint(cell, owner.uid, owner.shade);
    const pod = owner && names.get(owner.uid);
    cell.dataset.about = owner ? `${pod ? pod.key : owner.uid}, container ${owner.container || 'any'}`
      : kind === 'free' ? 'in the shared pool, free to give' : kind === 'pool' ? 'in the shared pool'
        : kind === 'kept' ? 'reserved for the system' : 'reserved for the system, in the shared pool';
  }
}
function devicesByNode(devices) {
  const found = new Map();
  for (const one of devices)
    for (const node of one.nodes) found.set(node, [...found.get(node) || [], one]);
  return found;
}
function drawChip(parts, one) {
  const main = one.memory.find(m => m.totalBytes);
  parts.chip.textContent = main ? `${size(main.freeBytes)} of ${size(main.totalBytes)} free` : 'no memory';
  fill(parts.bar, ...(main ? segments(main, one) : []));
  if (one.stranded) parts.chip.append(make('b', ' stranded', 'warn'));
}
function drawNode(parts, one, devices, largest, names) {
  const total = numbers(one.cpus.all).length, free = numbers(one.cpus.free).length;
  const given = numbers(one.cpus.exclusive).length, kept = numbers(one.cpus.reserved).length;
  fill(parts.sum, make('b', free), ` of ${total} CPUs free`);
  for (const each of [parts, ...parts.others || []])
    each.caches.setAttribute('aria-label', `NUMA node ${one.id}: ${count(total, 'CPU')}, ${given} given to ` +
      `containers, ${free} free to give, ${kept} reserved`);
  const kinds = one.memory.filter(m => m.totalBytes).sort((a, b) => a.type < b.type ? 1 : -1);
  fill(parts.memory, ...kinds.flatMap(m => memoryRow(m, one)));
  fill(parts.devices, ...deviceRows(devices));
  parts.devices.hidden = !devices.length;
  parts.stranded.textContent = one.stranded ? `Stranded: ${one.stranded.text}` : '';
  parts.stranded.hidden = !one.stranded;
  drawWho(parts.who, one, names);
  const more = Object.entries(largest ? largest.devices : {}).filter(d => d[1]).map(
    ([resource, n]) => `${n} ${plainName(resource)}`);
  parts.fits.textContent = largest ? 'Largest that fits: ' + [count(largest.cpus, 'CPU'),
    size(largest.memory.memory || 0), ...more].join(', ') : '';
}
function memoryRow(one, node) {
  const group = node.memoryGroup.length > 1 ? ` (group ${ranges(node.memoryGroup)})` : '';
  const bar = make('span', '', 'bar');
  bar.append(...segments(one, node));
  bar.dataset.type = one.type;
  const label = make('span', memoryName(one.type), 'label'), free = make('span', '', 'left');
  free.append(make('b', size(one.freeBytes)), ` of ${size(one.totalBytes)} free${group}`);
  if (group) free.title = `given together by ${nodesWord(node.memoryGroup)}`;
  return [label, bar, free];
}
function segments(one, node) {
  const parts = [];
  const part = (bytes, name, about) => {
    const found = make('i', '', name);
    found.style.width = `${Math.max(0, bytes / one.totalBytes * 100)}%`;
    found.dataset.about = about;
    parts.push(found);
    return found;
  };
  if (one.systemReservedBytes) part(one.systemReservedBytes, 'kept', `${size(one.systemReservedBytes)} reserved for the system`);
  for (const each of memoryParts(one, node.occupants, node.id)) {
    const nodes = each.nodes.length > 1 ? `, its part of ${size(each.whole)} of ${nodesWord(each.nodes)}` : '';
    const found = paint(part(each.bytes, '', `${size(each.bytes)} ${memoryName(one.type)}${nodes}`), each.uid);
    if (each.nodes.length > 1) found.classList.add('group');
  }
  return parts;
}
function deviceRows(devices) {
  const kinds = new Map();
  for (const one of devices) kinds.set(one.resource, [...kinds.get(one.resource) || [], one]);
  return [...kinds].map(([resource, all]) => {
    const row = make('div', '', 'device-row'), many = all.length > DEVICES_NAMED;
    const free = all.filter(d => d.healthy && !d.holder).length;
    const name = make('span', plainName(resource), 'label');
    name.title = resource;
    row.append(name);
    const boxes = make('span', '', 'boxes');
    for (const one of all) {
      const box = make('i', many ? '' : short(one.id, 14), 'device');
      if (!one.healthy) box.classList.add('sick');
      if (one.holder) paint(box, one.holder.uid);
      box.dataset.resource = resource; box.dataset.id = one.id;
      box.dataset.about = `${resource} ${one.id}` + (one.healthy ? '' : ', unhealthy') +
        (one.holder ? `, ${one.holder.namespace}/${one.holder.pod}` : ', free') +
        (one.nodes.length > 1 ? `, at ${nodesWord(one.nodes)}` : '');
      boxes.append(box);
    }
    const left = make('span', '', 'left');
    left.append(make('b', free), ` of ${all.length} free`);
    row.append(boxes, left);
    return row;
  });
}
function drawWho(list, node, names) {
  const byPod = new Map();
  let sharing = 0;
  for (const o of node.occupants) {
    if (!o.exclusive && !o.memory.length) { sharing++; continue; }
    const known = byPod.get(o.uid) || {cpus: 0, bytes: 0, pod: o.pod};
    if (o.exclusive) known.cpus += numbers(o.cpus).length;
    known.bytes += o.memory.filter(b => b.type === 'memory').reduce((sum, b) => sum + b.sizeBytes / b.nodes.length, 0);
    byPod.set(o.uid, known);
  }
  const items = [...byPod].sort((a, b) => b[1].cpus - a[1].cpus || b[1].bytes - a[1].bytes);
  const shown = items.length > WHO_SHOWN ? items.slice(0, WHO_SHOWN - 1) : items;
  const lines = shown.map(([uid, one]) => {
    const item = make('li'), found = button('', 'chip', () => choose({uid}));
    const pod = names.get(uid);
    found.append(tag(uid), make('span', pod ? pod.name : one.pod, 'name'),
      make('span', one.cpus || '', 'soft'));
    found.dataset.uid = uid;
    found.title = `${pod ? pod.key : one.pod}: ${one.cpus ? count(one.cpus, 'CPU') : 'shared pool'}` +
      (one.bytes ? `, ${size(one.bytes)}` : '');
    item.append(found);
    return item;
  });
  const more = items.length - shown.length;
  if (more) {
    const item = make('li');
    item.append(button(`${more} more`, 'chip', () => choose({node: node.id})));
    lines.push(item);
  }
  if (sharing) lines.push(make('li', `${count(sharing, 'container')} in the shared pool`, 'soft sharing'));
  fill(list, ...lines);
}
