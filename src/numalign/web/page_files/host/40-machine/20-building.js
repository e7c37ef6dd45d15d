// The machine as boxes: sockets, NUMA nodes, caches, cores, CPUs. They are built once for a machine.
const map = {text: '', built: new Map(), cells: new Map(), nodes: new Map(), grids: [], digits: 1};

function buildMap(layout) {
  map.cells.clear(); map.nodes.clear(); map.grids = [];
  map.built = new Map(layout.memory.map(one => [one.node, one]));
  const all = layout.sockets.flatMap(s => numbers(s.cpus));
  map.digits = String(Math.max(0, ...all)).length;
  const sockets = make('div', '', 'sockets');
  map.sockets = sockets;
  map.nodeGrids = [];
  for (const socket of layout.sockets) sockets.append(socketBox(socket, layout));
  const loose = layout.memoryNodes.length ? memoryOnly(layout.memoryNodes) : null;
  const nowhere = layout.pci.filter(one => one.node === null);
  const pci = nowhere.length ? make('p', `At no NUMA node: ${pciText(nowhere)}`, 'pci soft') : null;
  map.nowhere = make('div', '', 'nowhere');
  fill('map', sockets, loose, map.nowhere, pci);
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
    for (const name of ['memory', 'devices', 'pci', 'stranded', 'who', 'fits']) {
      parts[name] = make(name === 'who' ? 'ul' : name === 'memory' || name === 'devices' ? 'div' : 'p', '', name);
      box.append(parts[name]);
    }
    const own = layout.pci.filter(one => one.node === part.node);
    parts.pci.textContent = own.length ? `PCI: ${pciText(own)}` : '';
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
  cores.setAttribute('aria-hidden', 'true');  // told by the label of all caches of the node
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
    const bare = ids.filter(id => found.has(id) && isBare(found.get(id)));
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
  const best = socketsInRow(width, sockets, most);
  map.sockets.style.setProperty('--n', best.across);
  for (const one of map.nodeGrids)
    one.grid.style.setProperty('--n', one.number === most ? best.nodes : inRow(one.number, best.nodes));
  const widths = map.grids.map(one => one.grid.clientWidth);
  map.grids.forEach(({grid, part}, at) => {
    const threads = Math.max(...part.caches.flatMap(c => c.cores.map(t => numbers(t).length)));
    const cores = Math.max(...part.caches.map(c => c.cores.length));
    const coreWidth = threads * (map.digits * 5.6 + 2) + 1;
    const found = arranged(widths[at], part.caches.length, cores, coreWidth,
      part.caches.some(c => c.name));
    grid.style.setProperty('--across', found.across);
    grid.style.setProperty('--cores', found.cores);
  });
}
