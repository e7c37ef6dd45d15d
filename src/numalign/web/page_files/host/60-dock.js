// Details of what is chosen: one pod or one NUMA node, named in the address of the page.
const chosen = {uid: null, node: null};
const explanations = new Map(), traces = new Map();
let dockKey = '';

async function explanationOf(uid) {
  // As the host is now; asked again when something changed.
  const known = explanations.get(uid);
  if (known && known.revision === revision) return known.found;
  try {
    const found = await ask(`pods/${encodeURIComponent(uid)}/explanation`);
    explanations.set(uid, {revision, found});
    return found;
  } catch (error) {
    return null;
  }
}
function choose({uid = null, node = null}) {
  const pod = uid && view ? view.pods.find(one => one.uid === uid) : null;
  const hash = pod ? `#pod/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`
    : node !== null ? `#node/${node}` : '';
  if (hash !== location.hash) history.pushState(null, '', hash || location.pathname + location.search);
  chosen.uid = pod ? uid : null;
  chosen.node = node;
  showChosen();
}
function chooseByAddress() {
  const parts = location.hash.slice(1).split('/').map(decodedPart);
  let uid = null, node = null;
  if (parts[0] === 'pod' && view) {
    const same = view.pods.filter(p => p.namespace === parts[1] && p.name === parts[2]);
    const found = same.sort((a, b) => b.created - a.created)[0];
    uid = found ? found.uid : null;
  }
  if (parts[0] === 'node' && /^\d+$/.test(parts[1] || '')) node = Number(parts[1]);
  chosen.uid = uid;
  chosen.node = node;
  chosen.missing = parts[0] === 'pod' && !uid ? `${parts[1]}/${parts[2]}` : '';
  showChosen();
}
function decodedPart(text) {
  try { return decodeURIComponent(text); } catch (error) { return text; }
}
function showChosen() {
  if (!view) return;
  light(chosen.uid, chosen.node);
  showFar(view.node, chosen.node);
  drawDock();
  drawPods(view);
}
function drawDock() {
  const dock = byId('dock'), pod = view.pods.find(one => one.uid === chosen.uid);
  const node = view.node.nodes.find(one => one.id === chosen.node);
  dock.hidden = !pod && !node && !chosen.missing;
  if (dock.hidden) { dockKey = ''; return; }
  const key = pod ? JSON.stringify([pod.uid, pod.source, revision, view.at]) : JSON.stringify([node, revision, view.at, chosen.missing]);
  if (key === dockKey) return;
  dockKey = key;
  const top = dock.scrollTop;
  fill(dock, ...(pod ? podDetails(pod) : node ? nodeDetails(node)
    : [head(`Pod ${chosen.missing} is not here`), make('p', 'It may have ended, or run on another host.', 'soft')]));
  dock.scrollTop = top;
}
function head(text, ...more) {
  const found = make('div', '', 'title'), title = make('h2', text, 'wraps');
  const close = button('Close', 'plain close', () => choose({}));
  close.title = 'Escape';
  found.append(title, ...more, close);
  return found;
}
function block(title, ...what) {
  const found = make('div', '', 'block');
  found.append(make('h3', title), ...what);
  return found;
}
function lines(texts, name, tagName = 'ul') {
  const list = make(tagName, '', name);
  list.append(...texts.map(text => make('li', text, 'wraps')));
  return list;
}

// A pod.

function podDetails(pod) {
  const found = pod.source, notes = found.numalign.notes || [];
  const facts = [pod.owner, pod.qos, `${shortSpan(Date.now() / 1000 - pod.created)} old`,
    pod.restarts ? count(pod.restarts, 'restart') : '', found.numalign.source].filter(Boolean);
  const top = head(pod.key, make('span', pod.state, `strong ${pod.kind}`), make('span', facts.join(' · '), 'soft'));
  if (pod.cpus.length || pod.blocks.length || pod.devices.length) top.prepend(tag(pod.uid));
  const blocks = [];
  if (pod.isRefused) blocks.push(...whyBlocks(pod));
  else if (pod.message || troubles(pod).length)
    blocks.push(block('What is wrong', lines([pod.message, ...troubles(pod)].filter(Boolean), 'facts-list')));
  if (Object.keys(found.numalign.containers).length) blocks.push(placedBlock(pod));
  if (notes.length) blocks.push(block('Not carried out', lines(notes, 'facts-list')));
  // Beside a refusal its cause and what would help have the room.
  if (pod.isRefused) blocks[0].append(...decisionBlock(pod).childNodes); else blocks.push(decisionBlock(pod));
  const body = make('div', '', 'blocks');
  body.append(...blocks);
  return [top, body];
}
function whyBlocks(pod) {
  const sentence = make('p', pod.why || pod.message, 'strong wraps'), facts = make('div');
  const why = block('Why it was refused', sentence);
  why.append(facts, make('p', `The kubelet's words: ${[pod.state, pod.message].filter(Boolean).join(': ')}`, 'soft wraps'));
  why.classList.add('why');
  if (isPast()) return [why];
  const more = make('div', '', 'remedies'), help = block('What would let it in', more);
  fill(more, make('p', 'Looking for what would help…', 'soft'));
  explanationOf(pod.uid).then(one => {
    if (one && one.sentence && !one.admitted && !pod.why) sentence.textContent = one.sentence;
    fill(facts, one && !one.admitted ? factsOf(one) : null);
    fill(more, ...remedies(one));
  });
  return [why, help];
}
function factsOf(one) {
  const facts = (one.facts || []).filter(text => text !== one.sentence);
  return facts.length ? lines(facts, 'facts-list') : null;
}
function remedies(one) {
  if (!one) return [make('p', 'The agent could not say what would help just now.', 'soft')];
  if (one.admitted) return [make('p', 'It would be admitted now: apply it again.', 'good strong')];
  const found = [];
  if (one.changes && one.changes.length) {
    found.push(lines(one.changes.map(c => c.text), 'changes', 'ol'));
    if (one.complete === false) found.push(make('p', 'There may be more: the time for looking was up.', 'soft'));
  } else found.push(make('p', one.fitsWhenEmpty === false ? 'Nothing that was tried would help: it does not fit on the empty host either.'
    : 'Nothing that was tried would help.', 'soft'));
  return found;
}
function placedBlock(pod) {
  const containers = Object.entries(pod.source.numalign.containers).map(([name, one]) => ({name, ...one}));
  const found = block('Where it sits', placements(containers));
  const isOwn = pod.cpus.length || pod.blocks.length || pod.devices.length;
  if (isOwn && !isPast()) explanationOf(pod.uid).then(one => {
    if (one && one.costs && found.isConnected) found.lastChild.replaceWith(placements(containers, one.costs));
  });
  return found;
}
function placements(containers, costs) {
  const byName = new Map((costs || []).map(one => [one.container, one]));
  const rows = containers.map(one => {
    const own = numbers(one.cpus).length, cost = byName.get(one.name);
    const cpus = one.exclusive ? make('span') : null;
    if (cpus) cpus.append(make('b', own), ' ', listed(one.cpus));
    const devices = Object.entries(one.devices).flatMap(([resource, ids]) => ids.map((id, at) => {
      const near = one.deviceNodes[resource][at];
      return `${plainName(resource)} ${id}${near.length ? ` at ${nodesWord(near)}` : ''}`;
    }));
    return [one.name, cpus || (one.cpus ? 'shared pool' : ''), one.exclusive ? ranges(one.cpuNodes) : '',
      one.memory.map(b => `${size(b.sizeBytes)}${b.type === 'memory' ? '' : ` ${memoryName(b.type)}`} on ${nodesWord(b.nodes)}`).join(', '),
      devices.join(', '), one.aligned === null ? '' : make('span', one.aligned ? 'yes' : 'no', one.aligned ? 'good' : 'warn strong'),
      one.distance === null ? '' : String(one.distance), reach(cost)];
  });
  const box = make('div', '', 'wide stacks');
  box.append(table(['container', 'CPUs of its own', 'nodes', 'memory', 'devices', 'aligned', 'distance', 'cost (estimate)'], rows));
  return box;
}
function reach(cost) {
  if (!cost) return '';
  const one = (name, part) => part && part.localShare < 1
    ? `${Math.round(100 - part.localShare * 100)} % of ${name} is remote` : '';
  return [one('its memory', cost.cpuToMemory), one('device access', cost.cpuToDevices),
    cost.readLatencyNs ? `reads in ${cost.readLatencyNs} ns` : ''].filter(Boolean).join(', ') ||
    (cost.cpuToMemory || cost.cpuToDevices ? 'all local' : '');
}
function decisionBlock(pod) {
  const decision = decisions.find(one => one.uid === pod.uid);
  const when = decision ? `${decision.outcome === 'pod_rejected' ? 'Refused' : 'Admitted'} at ${clock(decision.time)}` +
    (decision.seconds ? `, decided in ${(decision.seconds * 1000).toFixed(1)} ms` : '') : 'Decided before what the agent remembers.';
  const found = block('Decision', make('p', when));
  if (decision) found.append(traceButton(pod.uid, decision.time));
  return found;
}
function traceButton(uid, time) {
  const box = make('div'), key = `${uid} ${time}`;
  const show = async () => {
    if (!traces.has(key)) {
      try {
        const all = await ask(`decisions?uid=${encodeURIComponent(uid)}`);
        const same = all.items.find(one => one.time === time);
        traces.set(key, same && same.trace && same.trace.length ? traceLines(same.trace).join('\n') : 'The agent has forgotten it.');
      } catch (error) { fill(box, make('p', String(error.message), 'bad')); return; }
    }
    fill(box, make('pre', traces.get(key), 'trace'));
  };
  if (traces.has(key)) show(); else box.append(button('Show how it was decided', 'plain', show));
  return box;
}

// A NUMA node.

function nodeDetails(node) {
  const cpus = node.cpus, rows = [['all', cpus.all], ['given to containers', cpus.exclusive],
    ['shared pool', cpus.shared], ['free to give', cpus.free], ['reserved', cpus.reserved]].filter(r => r[1]);
  const blocks = [];
  if (node.stranded) blocks.push(block('Stranded', make('p', node.stranded.text, 'warn strong')));
  if (rows.length) blocks.push(block('CPUs', table(['what', 'number', 'CPUs'], rows.map(
    ([name, text]) => [name, String(numbers(text).length), listed(text)]), ['', 'num', ''])));
  const kinds = node.memory.filter(m => m.totalBytes);
  if (kinds.length) blocks.push(block('Memory', table(['kind', 'total', 'given', 'reserved', 'free'], kinds.map(
    m => [memoryName(m.type), ...[m.totalBytes, m.usedBytes, m.systemReservedBytes, m.freeBytes].map(size)]),
  ['', 'num', 'num', 'num', 'num'])));
  else if (map.built.has(node.id)) blocks.push(block('Memory', make('p', `${builtText(node.id)}; the memory manager does not give it node by node.`)));
  if (node.memoryGroup.length > 1) blocks[blocks.length - 1].append(
    make('p', `Given together by ${nodesWord(node.memoryGroup)}, as some container has memory of both.`, 'soft'));
  const pci = view.node.layout.pci.filter(one => one.node === node.id);
  if (pci.length) blocks.push(block('PCI devices', lines(pci.map(one => `${one.name}${one.count > 1 ? ` × ${one.count}` : ''} ${one.address}`), 'facts-list')));
  if (node.distances) {
    const to = new Map();
    view.node.nodes.forEach((one, at) => {
      if (one.id !== node.id) to.set(node.distances[at], [...to.get(node.distances[at]) || [], one.id]);
    });
    if (to.size) blocks.push(block('Distance', lines([...to].sort((a, b) => a[0] - b[0]).map(
      ([far, ids]) => `${far} to ${nodesWord(ids)}`), 'facts-list')));
  }
  const who = view.pods.filter(pod => pod.nodes.includes(node.id));
  const list = make('ul', '', 'who');
  list.append(...who.map(pod => {
    const item = make('li'), one = button('', 'chip', () => choose({uid: pod.uid}));
    one.append(tag(pod.uid), make('span', pod.key, 'name'), make('span', amounts(pod), 'soft'));
    item.append(one);
    return item;
  }));
  blocks.push(block(`Pods with something of their own here (${who.length})`, who.length ? list : make('p', 'none', 'soft')));
  const body = make('div', '', 'blocks');
  body.append(...blocks);
  return [head(`NUMA node ${node.id}`), body];
}
