// What is in the boxes: who has which CPUs, memory and devices. Only what changed is touched.
const WHO_SHOWN = 12, DEVICES_NAMED = 8;

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
  map.usedKinds = new Set(node.nodes.flatMap(n => n.memory.filter(m => m.usedBytes).map(m => m.type)));
  for (const one of node.nodes) {
    drawCells(one, owners, names);
    const parts = map.nodes.get(one.id);
    if (!parts) continue;
    const own = devices.get(one.id) || [];
    const key = JSON.stringify([[...map.usedKinds], one.cpus, one.memory, one.memoryGroup, one.occupants, one.stranded,
      largest.get(one.id), own, own.map(d => d.holder && lookOf(d.holder.uid).code)]);
    if (parts.key === key) continue;
    parts.key = key;
    if (parts.chip) drawChip(parts, one); else drawNode(parts, one, own, largest.get(one.id), names);
  }
  const loose = devices.get(null) || [], key = JSON.stringify(loose);
  if (map.nowhere.key !== key) fill(map.nowhere, loose.length ? make('h4', 'Devices at no NUMA node') : null, ...deviceRows(loose));
  map.nowhere.key = key;
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
    for (const node of one.nodes.length ? one.nodes : [null]) found.set(node, [...found.get(node) || [], one]);
  return found;
}
function drawChip(parts, one) {
  const main = one.memory.find(m => m.totalBytes);
  parts.chip.textContent = main ? `${size(main.freeBytes)} of ${size(main.totalBytes)} free` 
    : map.built.get(one.id).sizeBytes ? map.built.get(one.id).text : 'no memory';
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
  const told = kinds.filter(m => m.type === 'memory' || map.usedKinds.has(m.type));
  const idle = kinds.filter(m => !told.includes(m));
  fill(parts.memory, ...told.flatMap(m => memoryRow(m, one)), idle.length
    ? make('span', `unused: ${idle.map(m => `${size(m.freeBytes)} of ${memoryName(m.type)}`).join(', ')}`, 'idle soft') : null);
  if (!kinds.length) fill(parts.memory, make('span', `${builtText(one.id)}, not given node by node`, 'idle soft'));
  fill(parts.devices, ...deviceRows(devices));
  parts.stranded.textContent = one.stranded ? `Stranded: ${one.stranded.text}` : '';
  drawWho(parts.who, one, names);
  const more = Object.entries(largest ? largest.devices : {}).filter(d => d[1]).map(
    ([resource, n]) => `${n} ${plainName(resource)}`);
  parts.fits.textContent = largest ? 'Largest that fits: ' + [count(largest.cpus, 'CPU'),
    size(largest.memory.memory || 0), ...more].join(', ') : '';
}
function builtText(node) {
  const one = map.built.get(node);
  return one.text + (one.hugePages ? `, huge pages ${one.hugePages}` : '');
}
function memoryRow(one, node) {
  const group = node.memoryGroup.length > 1 ? ` (with ${ranges(node.memoryGroup.filter(n => n !== node.id))})` : '';
  const bar = make('span', '', 'bar');
  bar.append(...segments(one, node));
  bar.dataset.type = one.type;
  const label = make('span', memoryName(one.type), 'label'), free = make('span', '', 'left');
  free.append(make('b', size(one.freeBytes)), ` free${group}`);
  free.dataset.about = `${size(one.freeBytes)} of ${size(one.totalBytes)} free` +
    (group ? `; given together by ${nodesWord(node.memoryGroup)}` : '');
  if (!one.usedBytes && one.type !== 'memory') for (const part of [label, bar, free]) part.classList.add('spare');
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
    boxes.setAttribute('aria-hidden', 'true');
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
