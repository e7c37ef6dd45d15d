// What would fit: a form or a manifest is asked about; nothing is changed. The answer is told in
// words and drawn into the map.
const ASKED_MAX = 64;
let formKey = '';

function drawForm(node) {
  const pages = [...new Set(node.nodes.flatMap(n => n.memory.filter(m => m.type !== 'memory' && m.totalBytes).map(m => m.type)))];
  const resources = [...new Set(node.devices.map(d => d.resource))].sort();
  const key = JSON.stringify([pages, resources, node.settings]);
  if (key === formKey) return;
  formKey = key;
  const before = new Map([...byId('by-form').querySelectorAll('[name]')].map(one => [one.name, one.value]));
  const parts = [field('CPUs', 'cpu', {value: '4', size: 6, title: 'such as 4, or 3.5 for the shared pool'}),
    field('memory', 'memory', {value: '8Gi', size: 7, title: 'such as 8Gi'}),
    ...pages.sort().map(type => field(memoryName(type), type, {size: 6, placeholder: 'such as 2Gi'})),
    ...resources.map(name => field(plainName(name), name, {type: 'number', min: 0, max: 64, title: name})),
    field('how many', '=count', {type: 'number', min: 1, max: ASKED_MAX, value: 1})];
  const kind = make('label'), select = make('select');
  select.name = '=class';
  for (const [value, text] of [['', 'own CPUs (Guaranteed)'], ['burstable', 'requests only (Burstable)']]) {
    const option = make('option', text);
    option.value = value;
    select.append(option);
  }
  kind.append(make('span', 'class'), select);
  parts.push(kind);
  const act = make('span', '', 'acts'), send = button('Ask', 'plain main');
  send.type = 'submit';
  act.append(send, button('As a manifest', 'plain', () => {
    byId('manifest').value = manifestText(formValues());
    chooseTab('by-text');
    byId('manifest').focus();
  }));
  fill('by-form', ...parts, act);
  for (const one of byId('by-form').querySelectorAll('[name]')) if (before.has(one.name)) one.value = before.get(one.name);
  drawPolicyHint(node);
}
function drawPolicyHint(node) {
  // What the policies in force make of the amounts that are asked for.
  const {amounts: found, kind} = formValues(), set = node.settings, cpus = Number(found.cpu || 0);
  const isOwn = set.cpuManagerPolicy === 'static' && !kind && Number.isInteger(cpus) && cpus > 0;
  const first = !found.cpu ? 'No CPUs asked for: it runs in the shared pool'
    : isOwn ? `${count(cpus, 'CPU')} of its own`
      : `In the shared pool of CPUs, since ${set.cpuManagerPolicy !== 'static' ? `the CPU manager is ${set.cpuManagerPolicy}`
        : kind ? 'a Burstable pod has none of its own' : 'only whole CPUs are given'}`;
  const where = {'single-numa-node': 'from one NUMA node, or it is refused', restricted: 'from the fewest NUMA nodes that could hold it, or it is refused',
    'best-effort': 'from the fewest NUMA nodes if that can be', none: 'from any NUMA nodes'}[set.topologyManagerPolicy];
  byId('policy-hint').textContent = `${first}; what is its own comes ${where || 'as the policy has it'}` +
    `${set.topologyManagerPolicy === 'none' ? '' : ` (${set.topologyManagerPolicy} per ${set.topologyManagerScope})`}.`;
}
function field(text, name, values) {
  const found = make('label'), input = make('input');
  Object.assign(input, {name, autocomplete: 'off', ...values});
  found.append(make('span', text), input);
  return found;
}
function formValues() {
  const found = {amounts: {}, count: 1, kind: ''};
  for (const one of byId('by-form').querySelectorAll('[name]')) {
    const value = one.value.trim();
    if (one.name === '=count') found.count = Math.min(ASKED_MAX, Math.max(1, Number(value) || 1));
    else if (one.name === '=class') found.kind = value;
    else if (value && value !== '0') found.amounts[one.name] = value;
  }
  return found;
}
function manifestText({amounts: found, count: number, kind}) {
  const devices = Object.fromEntries(Object.entries(found).filter(([name]) => name.includes('/') || name.startsWith('hugepages-')));
  const resources = kind ? {requests: found, limits: devices} : {limits: found};
  if (kind && !Object.keys(devices).length) delete resources.limits;
  const pods = Array.from({length: number}, (_, at) => ({apiVersion: 'v1', kind: 'Pod',
    metadata: {name: number > 1 ? `asked-${at + 1}` : 'asked'},
    spec: {containers: [{name: 'main', resources}]}}));
  return JSON.stringify(number > 1 ? {apiVersion: 'v1', kind: 'List', items: pods} : pods[0], null, 2);
}
function chooseTab(id) {
  for (const name of ['form', 'text']) {
    const isOn = id === `by-${name}`;
    byId(`panel-${name}`).hidden = !isOn;
    byId(`tab-${name}`).setAttribute('aria-selected', isOn);
    byId(`tab-${name}`).tabIndex = isOn ? 0 : -1;
  }
}
async function askWhatFits(body) {
  fill('answer', make('p', 'Asking…', 'soft'));
  clearGhosts();
  try {
    drawAnswer(await ask('admission', {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)}));
  } catch (error) {
    fill('answer', make('p', error.message, 'bad wraps'));
  }
}
function drawAnswer(found) {
  drawGhosts(found.items);
  const good = found.items.filter(one => one.admitted), bad = found.items.filter(one => !one.admitted);
  const parts = [];
  if (found.items.length > 1) parts.push(make('p', `${good.length} of ${found.items.length} are admitted.`, 'strong'));
  for (const one of good.slice(0, 8)) parts.push(admittedBox(one));
  if (good.length > 8) parts.push(make('p', `and ${good.length - 8} more like these`, 'soft'));
  if (bad.length) parts.push(refusedBox(bad[0], bad.length));
  for (const text of found.notes || []) parts.push(make('p', text, 'soft'));
  if (found.leftOut) parts.push(make('p', `${count(found.leftOut, 'pod')} not asked about: only the first ${ASKED_MAX} are.`, 'soft'));
  parts.push(button('Clear', 'plain', () => { clearGhosts(); fill('answer'); }));
  fill('answer', ...parts);
  if (lit.ghosts.length) byId('map-section').scrollIntoView({block: 'nearest'});
}
function admittedBox(one) {
  const box = make('div', '', 'verdict yes'), nodes = one.map.filter(n => n.pod).map(n => n.node);
  const cpus = ranges(one.map.flatMap(n => numbers(n.pod)));
  const memory = [...new Set((one.placements || []).flatMap(p => p.memory.flatMap(b => b.nodes)))];
  const where = cpus ? `CPUs ${cpus} on ${nodesWord(nodes)}` : memory.length ? `the shared pool, memory on ${nodesWord(memory)}` : 'the shared pool';
  box.append(make('p', `${one.pod}: admitted here, ${where}`, 'strong wraps'));
  if (one.placements && one.placements.length) box.append(placements(one.placements, one.costs));
  return box;
}
function refusedBox(one, number) {
  const box = make('div', '', 'verdict no');
  box.append(make('p', one.sentence || one.message, 'strong wraps'), factsOf(one) || '',
    make('h3', 'What would let it in'), ...remedies(one));
  if (number > 1) box.append(make('p', `and ${number - 1} more refused after it`, 'soft'));
  if (one.message) box.append(make('p', `The kubelet's words: ${[one.reason, one.message].filter(Boolean).join(': ')}`, 'soft wraps'));
  return box;
}

// Reference shapes: how many more of each.

let capacityRevision = -1;
async function lookAtShapes() {
  if (capacityRevision === revision || isPast()) return;
  capacityRevision = revision;
  try { drawShapes(await ask('capacity')); } catch (error) { fill('shapes'); }
}
function drawShapes(found) {
  const unused = found.stranded.filter(one => one.unusedByShapes).map(one => `Node ${one.node}: ${one.text}`);
  if (!found.shapes.length) { fill('shapes'); return; }
  const rows = found.shapes.map(one => {
    const fits = make('b', one.fits, one.fits ? 'good' : 'bad');
    const act = button('Show', 'plain', () => askWhatFits({shape: one.amounts, count: Math.min(ASKED_MAX, Math.max(1, one.fits)), name: one.name}));
    act.setAttribute('aria-label', `Show where ${one.name} would go`);
    return [one.name, Object.entries(one.amounts).map(([name, text]) => `${text} ${plainName(name)}`).join(', '), fits, one.binding, act];
  });
  const box = make('div', '', 'wide stacks');
  box.append(table(['reference shape', 'asks for', 'how many more', 'then lacking', 'in the map'], rows, ['', '', 'num', '', '']));
  fill('shapes', box, unused.length ? lines(unused, 'facts-list warn') : null);
}
