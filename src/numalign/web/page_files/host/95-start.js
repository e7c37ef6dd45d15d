// What is around map and pods, and how all of it is worked by mouse, keys and addresses.
function viewOf(node, pods, at, moment) {
  const found = pods.items.map(podOf).sort((a, b) => a.created - b.created || (a.key < b.key ? -1 : 1));
  for (const pod of found) if (pod.cpus.length || pod.blocks.length || pod.devices.length) lookOf(pod.uid);
  return {node: {...node, layout: node.layout || values.node.layout}, pods: found, at: at || 0, moment};
}
const nowView = () => viewOf(values.node, values.pods);
function drawAll(found) {
  const isFirst = !view;
  view = found;
  drawFacts(view.node);
  drawTiles(view);
  drawMap(view);
  drawForm(view.node);
  if (isFirst || location.hash && !chosen.uid && chosen.node === null) chooseByAddress();
  else {
    if (chosen.uid && !view.pods.some(p => p.uid === chosen.uid)) chooseByAddress();
    else showChosen();
  }
}
function fact(name, value, title) {
  const found = make('span', name ? `${name} ` : '', 'fact');
  found.append(make('b', value));
  if (title) found.title = title;
  return found;
}
function drawFacts(node) {
  const set = node.settings, about = source(), options = o => Object.entries(o).map(e => e.join('=')).join(', ');
  byId('name').textContent = node.machine.name || 'numalign';
  const facts = [
    fact('topology', `${set.topologyManagerPolicy} per ${set.topologyManagerScope}`, options(set.topologyManagerPolicyOptions)),
    fact('CPUs', set.cpuManagerPolicy, options(set.cpuManagerPolicyOptions)),
    fact('memory', set.memoryManagerPolicy), fact('as the kubelet of', set.version),
    ...set.fidelity ? [fact('fidelity', set.fidelity, set.fidelity === 'kubelet' ? 'decides as the kubelet does, its faults included'
      : 'decides as the kubelet does, without its known faults')] : [],
    ...about.version ? [fact('numalign', about.version)] : [],
    ...about.kind && about.kind !== 'agent' ? [fact(about.kind, about.name || '', (about.notes || []).join('\n'))] : [],
  ];
  fill('facts', ...facts);
  byId('fleet').hidden = !about.fleet;
  if (about.fleet) byId('fleet').href = about.fleet;
  const more = [['history', 'history?limit=50'], ['manifests', 'manifests'], ['metrics', 'metrics']].filter(([name]) => has(name));
  fill('links', ...more.map(([name, path]) => { const a = make('a', name); a.href = path; return a; }));
}
function share(part, all) {
  // With one unit for both, if both have the same.
  const [n, unit] = size(part).split(' '), whole = size(all);
  return whole.endsWith(unit) ? [n, `of ${whole}`] : [`${n} ${unit}`, `of ${whole}`];
}
function tile(title, value, rest, share, kind) {
  const found = make('div', '', `tile card ${kind || ''}`), top = make('p');
  top.append(make('b', value), make('span', ` ${rest}`, 'soft'));
  found.append(make('p', title, 'soft name'), top);
  if (share !== null) {
    const bar = make('span', '', 'meter'), inner = make('i');
    inner.style.width = `${Math.min(100, share * 100)}%`;
    bar.append(inner);
    found.append(bar);
  }
  return found;
}
function drawTiles({node, pods}) {
  const sum = pick => node.nodes.reduce((total, one) => total + pick(one), 0);
  const own = sum(n => numbers(n.cpus.exclusive).length), free = sum(n => numbers(n.cpus.free).length);
  const kinds = type => node.nodes.flatMap(n => n.memory.filter(m => type === 'memory' ? m.type === 'memory' : m.type !== 'memory'));
  const add = (list, name) => list.reduce((total, m) => total + m[name], 0);
  const memory = kinds('memory'), pages = kinds('pages'), bad = pods.filter(p => p.kind === 'bad').length;
  const waiting = pods.filter(p => p.kind === 'warn').length;
  const best = node.largest.reduce((a, b) => b.cpus > a.cpus ? b : a, {cpus: 0, memory: {}});
  const stranded = node.nodes.filter(n => n.stranded).map(n => n.id);
  const held = node.devices.filter(d => d.holder).length, sick = node.devices.filter(d => !d.healthy).length;
  const tiles = [
    tile('Refused or failed', bad, bad === 1 ? 'pod' : 'pods', null, bad ? 'is-bad' : ''),
    tile('CPUs given', own, `of ${own + free}`, own / Math.max(1, own + free)),
    add(memory, 'totalBytes') ? tile('Memory given', ...share(add(memory, 'usedBytes'), add(memory, 'totalBytes')), add(memory, 'usedBytes') / add(memory, 'totalBytes'))
      : tile('Memory asked for', ...share(bytesOf(node.requested.memory), bytesOf(node.allocatable.memory)), bytesOf(node.requested.memory) / Math.max(1, bytesOf(node.allocatable.memory))),
  ];
  if (add(pages, 'totalBytes')) tiles.push(tile('Huge pages', ...share(add(pages, 'usedBytes'), add(pages, 'totalBytes')),
    add(pages, 'usedBytes') / add(pages, 'totalBytes')));
  if (node.devices.length) tiles.push(tile(sick ? `Devices, ${sick} sick` : 'Devices given', held, `of ${node.devices.length}`, held / node.devices.length, sick ? 'is-warn' : ''));
  tiles.push(tile('Largest that fits', count(best.cpus, 'CPU'), '', null));
  if (stranded.length) tiles.push(tile('Stranded', count(stranded.length, 'node'), ranges(stranded), null, 'is-warn'));
  if (waiting) tiles.push(tile('Waiting', waiting, waiting === 1 ? 'pod' : 'pods', null));
  fill('tiles', ...tiles);
}
function drawLegend() {
  const cell = (name, text) => { const found = make('span', '', 'entry'); found.append(make('i', '12', `cpu ${name}`), make('span', text)); return found; };
  const pod = cell('', 'a pod’s own: colour, pattern and letters are the pod’s; its containers are shades');
  const [mark] = pod.children;
  mark.classList.add('own', 'p1');
  mark.style.setProperty('--c', COLOURS[0]);
  fill('legend', pod, cell('free', 'free to give, in the shared pool'), cell('kept pool', 'reserved, in the shared pool'),
    cell('kept', 'reserved, never given'), cell('ghost', 'what a pod that you ask about would get'),
    make('span', 'Threads of one core touch. Bars: memory by pod; a dashed edge: given by several nodes together.', 'soft'));
}
function drawProblems(found) {
  link.problems = found.problems.length;
  byId('problems').hidden = !found.problems.length;
  fill('problems', ...found.problems.map(text => make('li', text)));
}
function drawManifests(found) {
  byId('manifests').hidden = !found.directory || !found.items.length && !found.problem;
  byId('manifests-where').textContent = found.directory;
  const rows = found.items.map(one => [one.file, one.pods.map(pod => `${pod.namespace}/${pod.name}`).join(', '),
    one.problem ? make('span', one.problem, 'bad wraps') : '']);
  fill('manifests-list', found.problem ? make('p', found.problem, 'bad wraps') : null, rows.length ? table(['file', 'pods', 'problem'], rows) : null);
}
function drawDecisions() {
  const SHOWN = 8;
  const rows = decisions.slice(0, SHOWN).map(d => {
    const isBad = d.outcome === 'pod_rejected', name = d.namespace ? `${d.namespace}/${d.pod}` : d.pod;
    const link_ = button(name, 'linkish', () => choose({uid: d.uid}));
    return [clock(d.time), link_, make('span', isBad ? 'refused' : 'admitted', isBad ? 'bad strong' : 'good'),
      d.seconds ? `${(d.seconds * 1000).toFixed(1)} ms` : '', make('span', d.why || [d.reason, d.message].filter(Boolean).join(': '), 'wraps')];
  });
  fill('decisions', rows.length ? table(['time', 'pod', 'outcome', 'decided in', 'why'], rows, ['num', '', '', 'num', ''])
    : make('p', 'none yet', 'soft'));
}

// Mouse.

document.addEventListener('pointerover', event => {
  if (event.pointerType === 'touch' || !event.target.closest) return;
  const found = event.target.closest('[data-uid]'), uid = found ? found.dataset.uid : chosen.uid;
  if (uid !== lit.uid) light(uid, chosen.node);
  const about = event.target.closest('[data-about]'), tip = byId('tip');
  tip.hidden = !about;
  if (about) {
    tip.textContent = (about.dataset.cpu ? `CPU ${about.dataset.cpu}: ` : '') + about.dataset.about;
    const box = about.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${box.bottom + 6 + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  }
});
document.addEventListener('focusin', event => {
  const found = event.target.closest('[data-uid]');
  if (found && found.dataset.uid !== lit.uid) light(found.dataset.uid, chosen.node);
});
byId('map').addEventListener('click', event => {
  const found = event.target.closest('[data-uid]');
  if (found && !event.target.closest('button')) choose({uid: found.dataset.uid});
});

// Keys: arrows go along what can be chosen, Escape closes, / filters.

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest('input, textarea, select');
  if (event.key === 'Escape') {
    if (field && field.id === 'filter' && field.value) { field.value = ''; drawPods(view); return; }
    if (chosen.uid || chosen.node !== null || chosen.missing) { choose({}); return; }
    if (lit.ghosts.length) { clearGhosts(); fill('answer'); return; }
    if (isPast()) goTo(null);
    return;
  }
  if (event.key === '/' && !field) { byId('filter').focus(); event.preventDefault(); return; }
  const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
  if (!step || field && field.id !== 'filter') return;
  if (field && event.key !== 'ArrowDown') return;
  const tabs = event.target.closest('[role=tablist]');
  const room = field ? byId('pods') : event.target.closest('#pods, #map');
  if (tabs) {
    const other = [...tabs.children].find(one => one !== event.target);
    other.click();
    other.focus();
    event.preventDefault();
  }
  if (!room) return;
  const all = [...room.querySelectorAll('button')].filter(one => !one.hidden && one.offsetParent);
  const at = field ? -1 : all.indexOf(document.activeElement);
  const next = all[at + step];
  if (next) { next.focus(); next.scrollIntoView({block: 'nearest'}); event.preventDefault(); }
});

// Everything else that is pressed, typed or resized.

function toggles(id, box, draw) {
  byId(id).addEventListener('click', () => {
    const isOn = byId(id).getAttribute('aria-pressed') !== 'true';
    byId(id).setAttribute('aria-pressed', isOn);
    if (byId(id).hasAttribute('aria-expanded')) byId(id).setAttribute('aria-expanded', isOn);
    draw(isOn);
    if (box) byId(box).hidden = !isOn;
  });
}
toggles('show-labels', null, isOn => byId('map').classList.toggle('labels', isOn));
toggles('show-distances', 'distances', () => drawDistances(view.node.layout));
toggles('show-legend', 'legend', drawLegend);
for (const id of ['filter', 'by-namespace', 'by-state', 'by-node'])
  byId(id).addEventListener('input', () => { allRows = false; if (view) drawPods(view); });
byId('by-form').addEventListener('input', () => drawPolicyHint(view.node));
byId('by-form').addEventListener('submit', event => {
  event.preventDefault();
  const {amounts: found, count: number, kind} = formValues();
  if (!Object.keys(found).length) fill('answer', make('p', 'Fill in at least one amount.', 'bad'));
  else askWhatFits(kind ? {manifest: manifestText(formValues())} : {shape: found, count: number});
});
byId('by-text').addEventListener('submit', event => {
  event.preventDefault();
  const text = byId('manifest').value;
  if (!text.trim()) fill('answer', make('p', 'Paste a manifest first.', 'bad'));
  else askWhatFits({manifest: text});
});
for (const name of ['form', 'text']) byId(`tab-${name}`).addEventListener('click', () => chooseTab(`by-${name}`));
byId('slider').addEventListener('input', () => goTo(Number(byId('slider').value)));
byId('earlier').addEventListener('click', () => goTo(place() - 1));
byId('later').addEventListener('click', () => goTo(place() + 1));
byId('to-now').addEventListener('click', () => goTo(null));
addEventListener('popstate', chooseByAddress);
addEventListener('hashchange', chooseByAddress);
addEventListener('scroll', () => { byId('tip').hidden = true; }, {passive: true});
new ResizeObserver(arrange).observe(byId('map'));
document.addEventListener('visibilitychange', () => {
  // A hidden page holds no stream and asks nothing.
  if (document.hidden) {
    rest();
    if (stream) stream.close();
  } else {
    link.shown = Date.now();
    follow();
    look();
  }
});
setInterval(tick, TICK_MS);
look();
follow();
