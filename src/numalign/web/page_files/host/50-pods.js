// The list of pods: refused ones first with the cause, replicas below their owner.
const openGroups = new Set(), hints = new Map();  // uid -> why and the best change, once they are known
const GROUP_LEAST = 2, ROWS_SHOWN = 60, HINTS_ASKED = 3, WRONG_SHOWN = 2, HINT_MS = 10000;
let hintTimer = null;
let allRows = false;

function wanted(pod) {
  const text = byId('filter').value.trim().toLowerCase(), node = byId('by-node').value;
  const namespace = byId('by-namespace').value, state = byId('by-state').value;
  return (!text || text.split(/\s+/).every(word => pod.search.includes(word))) &&
    (!namespace || pod.namespace === namespace) && (!state || pod.state === state) &&
    (!node || pod.nodes.includes(Number(node)));
}
function choices(id, first, values) {
  const select = byId(id), key = values.join('\n'), before = select.value;
  if (select.key === key) return;
  select.key = key;
  fill(select, ...[['', first], ...values.map(v => Array.isArray(v) ? v : [v, v])].map(([value, text]) => {
    const option = make('option', text);
    option.value = value;
    return option;
  }));
  select.value = before;
  if (select.selectedIndex < 0) select.value = '';
  select.disabled = values.length < 2 && !select.value;
}
function drawPods(view) {
  const {pods, node} = view;
  choices('by-namespace', 'namespace', [...new Set(pods.map(p => p.namespace))].sort());
  choices('by-state', 'state', [...new Set(pods.map(p => p.state))].sort());
  choices('by-node', 'node', node.nodes.filter(n => !isBare(n)).map(n => [String(n.id), `node ${n.id}`]));
  const found = pods.filter(wanted);
  byId('pods-count').textContent = found.length === pods.length ? pods.length : `${found.length} of ${pods.length}`;
  const groups = new Map();
  for (const pod of found) {
    const key = pod.owner ? `${pod.namespace}/${pod.owner}` : pod.uid;
    groups.set(key, [...groups.get(key) || [], pod]);
  }
  const order = (a, b) => a.rank - b.rank || (a.key < b.key ? -1 : 1);
  const lines = [...groups].map(([key, members]) => ({key, members: members.sort(order)})).sort(
    (a, b) => order(a.members[0], b.members[0]));
  const rows = [];
  let rank = -1;
  for (const {key, members} of lines) {
    if (members[0].rank !== rank) {
      rank = members[0].rank;
      const same = found.filter(one => one.rank === rank).length;
      const words = ['Refused or failed', 'Waiting', 'Running', 'Ended'];
      rows.push({heading: `${words[rank]} (${same})`});
    }
    if (members.length < GROUP_LEAST) rows.push({pod: members[0]});
    else {
      rows.push({group: key, members});
      // What went wrong is told even where the replicas are folded.
      const told = isOpen(key, members) ? members : members.filter(p => p.rank === 0).slice(0, WRONG_SHOWN);
      told.forEach(pod => rows.push({pod, isMember: true}));
    }
  }
  const real = rows.filter(row => !row.heading), last = allRows ? null : real[ROWS_SHOWN - 1];
  const shown = last ? rows.slice(0, rows.indexOf(last) + 1) : rows;
  drawRows(shown, last ? real.length - ROWS_SHOWN : 0);
  if (!found.length)
    byId('pods').append(make('p', pods.length ? 'No pod matches the filter.' : 'No pods on this host.', 'soft'));
}
const isOpen = (key, members) => openGroups.has(key) || members.some(one => one.uid === chosen.uid);

const rowCache = new Map();
function drawRows(rows, more) {
  const lists = [];
  let list = null;
  const used = new Set();
  for (const row of rows) {
    if (row.heading) {
      list = make('ul');
      lists.push(make('h3', row.heading), list);
      continue;
    }
    const id = row.group || row.pod.uid, key = rowKey(row);
    let known = rowCache.get(id);
    if (!known || known.key !== key) {
      known = {key, item: row.group ? groupRow(row) : podRow(row)};
      rowCache.set(id, known);
    }
    used.add(id);
    list.append(known.item);
  }
  for (const id of [...rowCache.keys()]) if (!used.has(id)) rowCache.delete(id);
  if (more > 0) lists.push(button(`Show ${more} more`, 'plain', () => { allRows = true; drawPods(view); }));
  const focused = document.activeElement;
  fill('pods', ...lists);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus();
}
function rowKey(row) {
  if (row.group) return JSON.stringify([row.members.map(p => [p.state, p.cpus.length]), isOpen(row.group, row.members)]);
  const p = row.pod;
  return JSON.stringify([p.key, p.state, p.cpus.length, p.bytes, p.nodes, p.devices.length, p.aligned,
    p.why, p.message, row.isMember, p.uid === chosen.uid, (hints.get(p.uid) || {}).text, (hints.get(p.uid) || {}).why, p.cpus.length ? lookOf(p.uid).code : '']);
}
function groupRow(row) {
  const item = make('li'), opened = isOpen(row.group, row.members);
  const found = button('', 'row group', () => {
    if (openGroups.has(row.group)) openGroups.delete(row.group); else openGroups.add(row.group);
    drawPods(view);
  });
  found.setAttribute('aria-expanded', opened);
  const name = make('span', row.members[0].owner, 'name');
  name.append(make('span', ` × ${row.members.length}`, 'soft'));
  found.append(make('span', opened ? '▾' : '▸', 'turn'), name);
  const right = make('span', '', 'right');
  const wrong = row.members.filter(p => p.rank === 0).length, waiting = row.members.filter(p => p.rank === 1).length;
  if (wrong) right.append(make('span', `${wrong} refused or failed`, 'bad'));
  else if (waiting) right.append(make('span', `${waiting} waiting`, 'warn'));
  else if (row.members[0].kind !== 'good') right.append(make('span', row.members[0].state, row.members[0].kind));
  else right.append(make('span', amounts({cpus: row.members.flatMap(p => p.cpus),
    bytes: row.members.reduce((sum, p) => sum + p.bytes, 0), devices: row.members.flatMap(p => p.devices)}), 'soft'));
  found.append(right);
  found.title = row.group;
  item.append(found);
  return item;
}
function amounts(pod) {
  const kinds = new Map();
  for (const one of pod.devices) kinds.set(one.resource, (kinds.get(one.resource) || 0) + 1);
  return [pod.cpus.length ? count(pod.cpus.length, 'CPU') : '', pod.bytes ? size(pod.bytes) : '',
    ...[...kinds].map(([resource, n]) => `${n} ${plainName(resource)}`)].filter(Boolean).join(' · ');
}
function podRow({pod, isMember}) {
  const item = make('li'), found = button('', `row${isMember ? ' member' : ''}`, () => choose({uid: pod.uid}));
  found.dataset.uid = pod.uid;
  if (pod.uid === chosen.uid) found.setAttribute('aria-current', 'true');
  const holds = pod.cpus.length || pod.blocks.length || pod.devices.length;
  const name = make('span', '', 'name');
  name.append(make('span', `${pod.namespace}/`, 'soft'), pod.name);
  name.title = pod.key;
  found.append(holds ? tag(pod.uid) : make('i', '', `tag none ${pod.kind}`), name);
  const right = make('span', '', 'right');
  const where = pod.nodes.length ? nodesWord(pod.nodes) : '';
  if (pod.kind === 'good')
    right.append(make('span', [amounts(pod) || (pod.pool.length ? 'shared pool' : ''), where].filter(Boolean).join(' · '), 'soft'));
  else right.append(make('span', pod.state, pod.kind));
  if (pod.aligned === false) right.append(make('b', ' spread', 'warn'));
  found.append(right);
  const hint = hints.get(pod.uid) || {};
  const cause = pod.why || hint.why || (pod.kind === 'bad' || pod.kind === 'warn' ? pod.message || troubles(pod)[0] : '');
  if (cause) found.append(make('span', cause.replace(/^Pod \S+ is refused:? /, ''), 'cause'));
  if (hint.text) found.append(make('span', `→ ${hint.text}`, 'hint'));
  item.append(found);
  return item;
}
async function askForHints() {
  // The best change for the first refused pods is told in the list; for others when they are chosen.
  if (isPast()) return;
  for (const pod of view.pods.filter(p => p.isRefused).sort((a, b) => a.key < b.key ? -1 : 1).slice(0, HINTS_ASKED))
    if (isOld(hints.get(pod.uid))) {
      const before = hints.get(pod.uid) || {}, when = {revision, time: Date.now()};
      hints.set(pod.uid, {...before, ...when});
      const found = await explanationOf(pod.uid);
      if (found) hints.set(pod.uid, {...when, ...(found.admitted ? {text: 'it would be admitted now: apply it again'}
        : {why: found.sentence, text: found.changes && found.changes.length ? found.changes[0].text : ''})});
      drawPods(view);
    }
  clearTimeout(hintTimer);
  hintTimer = [...hints.values()].some(one => one.revision !== revision) ? setTimeout(askForHints, HINT_MS) : null;
}
// What would help depends on the host; it is asked again after a change, but not at every one.
const isOld = hint => !hint || hint.revision !== revision && Date.now() - hint.time >= HINT_MS;
