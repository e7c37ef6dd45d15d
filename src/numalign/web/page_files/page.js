'use strict';
// Every event makes the page look again, a moment later and for all events of that moment together.
// Texts of pods are set as text only.
const LOOK_AGAIN_MS = 250, LOOK_ANYWAY_MS = 15000, EVENTS_SHOWN = 30, DECISIONS_SHOWN = 20;
const EVENTS = ['pod_admitted', 'pod_rejected', 'pod_deferred', 'pod_finished', 'pod_deleted',
  'container_started', 'container_exited', 'container_postponed', 'devices_reported',
  'devices_gone', 'devices_not_given', 'drift_repaired', 'events_lost'];
const WARNINGS = new Set(['pod_rejected', 'devices_gone', 'devices_not_given', 'drift_repaired',
  'events_lost', 'container_postponed']);
// White text on each of them has a contrast of at least 5 to 1.
const COLOURS = ['#1d4e89', '#8f2d56', '#0b6e4f', '#6a4c93', '#9c3d00', '#2b6777', '#7a1f2b',
  '#364fc7', '#5c4d00', '#862e9c', '#3f6212', '#7a4419'];
const byId = id => document.getElementById(id);
const colours = new Map();  // pod uid -> colour, for as long as the page is open
const traces = new Map();   // decision -> its lines, once they were asked for
const open = new Set();     // decisions whose trace is shown
const last = {};            // what was shown last, by path
let chosen = null, timer = null, stream = null;
// A host that does not run, such as a simulated one, has its answers in the page itself.
const stored = byId('stored') ? JSON.parse(byId('stored').textContent) : null;

function make(tag, text, name) {
  const found = document.createElement(tag);
  if (text !== undefined && text !== null) found.textContent = String(text);
  if (name) found.className = name;
  return found;
}
function numbers(text) {
  const found = [];
  for (const part of text ? text.split(',') : []) {
    const [first, to] = part.split('-').map(Number);
    for (let n = first; n <= (to === undefined ? first : to); n++) found.push(n);
  }
  return found;
}
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit++; }
  return bytes.toFixed(bytes % 1 && bytes < 100 ? 1 : 0) + ' ' + units[unit];
}
function age(text) {
  const now = stored ? stored.seconds * 1000 : Date.now();
  const seconds = Math.max(0, (now - Date.parse(text)) / 1000);
  for (const [unit, letter] of [[86400, 'd'], [3600, 'h'], [60, 'm']])
    if (seconds >= unit) return Math.floor(seconds / unit) + letter;
  return Math.floor(seconds) + 's';
}
function listed(text) {
  // A list of CPUs may be broken behind a comma, never at a hyphen.
  const found = make('span');
  text.split(/(?<=[,|+])/).forEach(part => found.append(make('span', part, 'part'), make('wbr')));
  return found;
}
const count = (n, noun) => n + ' ' + noun + (n === 1 ? '' : 's');
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString();
function colour(uid) {
  if (!colours.has(uid)) colours.set(uid, COLOURS[colours.size % COLOURS.length]);
  return colours.get(uid);
}
function table(heads, lines, nothing) {
  if (!lines.length) return make('p', nothing, 'soft');
  // A column in which nothing stands is left out.
  const kept = heads.map((_, at) => lines.some(line => {
    const cell = line.cells[at];
    return cell instanceof Node ? cell.textContent : cell;
  }));
  const box = make('div', null, 'wide'), found = make('table'), head = make('thead');
  const row = make('tr'), body = make('tbody');
  heads.forEach((text, at) => { if (kept[at]) row.append(make('th', text)); });
  head.append(row);
  for (const line of lines) {
    const tr = make('tr');
    if (line.uid) tr.dataset.uid = line.uid;
    line.cells.forEach((cell, at) => {
      if (!kept[at]) return;
      const isNode = cell instanceof Node;
      const td = make('td', isNode ? null : cell, (line.names || [])[at]);
      if (heads[at]) td.dataset.label = heads[at];
      if (isNode) td.append(cell);
      tr.append(td);
    });
    body.append(tr);
  }
  found.append(head, body);
  box.append(found);
  return box;
}

// Pods.

function word(pod) {
  const status = pod.status;
  if (pod.numalign.deleting) return ['Terminating', 'wait'];
  if (status.reason) return [status.reason, status.phase === 'Failed' ? 'bad' : 'wait'];
  if (status.phase === 'Succeeded') return ['Completed', 'soft'];
  if (status.phase === 'Failed') return ['Error', 'bad'];
  if (pod.numalign.awaitedDevices.length) return ['AwaitingDevices', 'wait'];
  for (const one of [...status.initContainerStatuses || [], ...status.containerStatuses || []]) {
    const waiting = one.state.waiting;
    if (waiting && waiting.reason && waiting.reason !== 'PodInitializing')
      return [waiting.reason, 'wait'];
  }
  return status.phase === 'Running' ? ['Running', 'good'] : [status.phase, 'wait'];
}
function why(pod) {
  const words = pod.status.message;
  const parts = pod.numalign.why ? [pod.numalign.why, "The kubelet's words: " + words] : [words];
  for (const one of [...pod.status.initContainerStatuses || [], ...pod.status.containerStatuses || []]) {
    const state = one.state.waiting || one.state.terminated;
    if (state && state.message) parts.push(one.name + ': ' + state.message);
    else if (state && state.exitCode) parts.push(one.name + ': exit code ' + state.exitCode);
  }
  return parts.filter(Boolean).join('\n');
}
function pods(found) {
  const wanted = byId('filter').value.trim().toLowerCase();
  const rank = {bad: 0, wait: 1, good: 2, soft: 3};
  const lines = found.items.map(pod => {
    const placed = Object.values(pod.numalign.containers);
    const own = placed.filter(c => c.exclusive).map(c => c.cpus).join(' | ');
    const isShared = placed.some(c => c.cpus && !c.exclusive);
    const blocks = placed.flatMap(c => c.memory);
    const nodes = [...new Set(blocks.flatMap(b => b.nodes))].sort((a, b) => a - b).join(',');
    const bytes = blocks.filter(b => b.type === 'memory').reduce((sum, b) => sum + b.sizeBytes, 0);
    const devices = placed.flatMap(c => Object.entries(c.devices).map(
      ([resource, ids]) => resource + ': ' + ids.map((id, i) => {
        const near = c.deviceNodes[resource][i];
        return near.length ? id + '@' + near.join(',') : id;
      }).join(' ')));
    const judged = placed.filter(c => c.aligned !== null);
    const far = Math.max(...placed.map(c => c.distance).filter(d => d !== null));
    const aligned = judged.length ? (judged.every(c => c.aligned) ? 'yes' : 'no') +
      (Number.isFinite(far) ? ', distance ' + far : '') : '';
    const restarts = [...pod.status.initContainerStatuses || [],
      ...pod.status.containerStatuses || []].reduce((sum, c) => sum + c.restartCount, 0);
    const [text, kind] = word(pod);
    const owner = (pod.metadata.ownerReferences || []).filter(o => o.controller).map(
      o => '\n' + o.kind + '/' + o.name).join('');
    const cells = [pod.metadata.namespace + '/' + pod.metadata.name + owner, make('span', text, kind),
      restarts || '', age(pod.metadata.creationTimestamp), pod.status.qosClass,
      listed([own, isShared ? 'shared pool' : ''].filter(Boolean).join(' + ')),
      bytes ? size(bytes) + ' on node ' + nodes : '', devices.join('\n'), aligned, why(pod)];
    const search = cells.map(c => c instanceof Node ? c.textContent : c).join(' ').toLowerCase();
    return {uid: pod.metadata.uid, cells, rank: rank[kind], search,
      names: ['name', '', 'num', 'num', '', 'mono', 'num', '', '', 'text']};
  });
  lines.sort((a, b) => a.rank - b.rank);
  const shown = lines.filter(line => line.search.includes(wanted));
  const heads = ['pod', 'status', 'restarts', 'age', 'QoS', 'CPUs', 'memory', 'devices', 'aligned',
    'why'];
  const nothing = lines.length ? 'no pod matches the filter'
    : 'no pods yet: put a manifest into the pods directory, or use numalign apply -f';
  byId('pods').replaceChildren(table(heads, shown, nothing));
  const phases = {};
  found.items.forEach(p => { phases[p.status.phase] = (phases[p.status.phase] || 0) + 1; });
  tile('pods', found.items.length, 'pods', Object.entries(phases).map(
    ([phase, n]) => n + ' ' + phase.toLowerCase()).join(', ') || 'none');
  byId('filter').hidden = !lines.length;
}

// The machine.

function tile(id, number, name, text) {
  let found = byId('tile-' + id);
  if (!found) {
    found = make('div', null, 'tile');
    found.id = 'tile-' + id;
    byId('tiles').append(found);
  }
  found.replaceChildren(make('span', name, 'soft'), make('b', number), make('span', text, 'soft'));
}
function memory(table_) {
  const row = [make('span', table_.type), make('div', null, 'bar'),
    make('span', size(table_.freeBytes) + ' free of ' + size(table_.totalBytes), 'soft')];
  for (const [bytes, name] of [[table_.systemReservedBytes, 'kept'], [table_.usedBytes, '']]) {
    const part = make('i', null, name);
    part.style.width = 100 * bytes / table_.totalBytes + '%';
    row[1].append(part);
  }
  return row;
}
function cores(node) {
  const owner = new Map();
  node.occupants.filter(o => o.exclusive).forEach(o => numbers(o.cpus).forEach(
    cpu => owner.set(cpu, o)));
  const kept = new Set(numbers(node.cpus.reserved));
  const box = make('div', null, 'cores');
  for (const text of node.cores) {
    const core = make('span', null, 'core');
    for (const cpu of numbers(text)) {
      const who = owner.get(cpu);
      const cell = make('span', cpu, 'cell ' + (who ? 'own' : kept.has(cpu) ? 'kept' : 'pool'));
      cell.title = 'CPU ' + cpu + ': ' + (who ? who.namespace + '/' + who.pod + ' ' + who.container
        : kept.has(cpu) ? 'reserved for the system' : 'shared pool');
      if (who) {
        cell.dataset.uid = who.uid;
        cell.style.background = colour(who.uid);
      }
      core.append(cell);
    }
    box.append(core);
  }
  return box;
}
function occupants(node, devices) {
  const list = make('ul', null, 'who');
  let sharing = 0;
  for (const o of node.occupants) {
    if (!o.exclusive && !o.memory.length) { sharing++; continue; }
    const item = make('li'), mark = make('span', null, 'mark');
    item.dataset.uid = o.uid;
    if (o.exclusive) mark.style.background = colour(o.uid);
    const held = devices.filter(d => d.holder && d.holder.uid === o.uid &&
      d.holder.container === o.container && d.nodes.includes(node.id)).map(d => d.id);
    const parts = [o.exclusive ? 'CPUs ' + o.cpus : 'shared pool',
      ...o.memory.map(b => size(b.sizeBytes) + (b.type === 'memory' ? '' : ' ' + b.type) +
        (b.nodes.length > 1 ? ' over nodes ' + b.nodes.join(',') : '')), ...held];
    const text = make('span');
    text.append(make('strong', o.pod), ' ' + o.container + ': ' + parts.join(', '));
    item.append(mark, text);
    list.append(item);
  }
  if (sharing) {
    const item = make('li');
    item.append(make('span', null, 'mark'),
      make('span', count(sharing, 'container') + ' in the shared pool', 'soft'));
    list.append(item);
  }
  return list;
}
function machine(found) {
  const it = found.machine, set = found.settings;
  byId('name').textContent = it.name || 'numalign';
  document.title = (it.name || 'host') + ' – numalign';
  byId('machine').textContent = [count(it.sockets, 'socket'), count(found.nodes.length, 'NUMA node'),
    count(it.cores, 'core'), count(it.cpuCount, 'CPU'), size(it.memoryBytes),
    'topology ' + set.topologyManagerPolicy + ' per ' + set.topologyManagerScope,
    'CPU manager ' + set.cpuManagerPolicy, 'memory manager ' + set.memoryManagerPolicy].join(', ');
  const sum = pick => found.nodes.reduce((total, node) => total + pick(node), 0);
  const own = sum(n => numbers(n.cpus.exclusive).length), free = sum(n => numbers(n.cpus.free).length);
  tile('own', own, 'CPUs given to containers', 'of ' + it.cpuCount);
  tile('free', free, 'CPUs free to give', 'in the shared pool of ' + found.sharedPool.count);
  const tables = found.nodes.flatMap(n => n.memory.filter(m => m.type === 'memory'));
  const used = tables.reduce((total, m) => total + m.usedBytes, 0);
  tile('memory', size(used), 'memory given', 'of ' + size(it.memoryBytes));
  const held = found.devices.filter(d => d.holder).length;
  const sick = found.devices.filter(d => !d.healthy).length;
  if (found.devices.length) tile('devices', held + ' of ' + found.devices.length, 'devices given',
    sick ? sick + ' unhealthy' : 'all healthy');
  const isBare = node => !node.cpus.all && !node.memory.some(m => m.totalBytes);
  const boxes = found.nodes.flatMap((node, at) => {
    if (isBare(node)) return [];
    const box = make('div', null, 'node'), head = make('h3', 'NUMA node ' + node.id);
    const total = numbers(node.cpus.all).length;
    head.append(make('span', total ? numbers(node.cpus.free).length + ' of ' +
      count(total, 'CPU') + ' free to give' : 'memory only'));
    box.append(head);
    if (total) box.append(cores(node));
    const bars = make('div', null, 'bars');
    node.memory.filter(m => m.totalBytes).sort((a, b) => a.type < b.type ? 1 : -1).forEach(
      m => bars.append(...memory(m)));
    box.append(bars);
    const fit = found.largest[at];
    const more = Object.entries(fit.devices).filter(d => d[1]).map(d => d[1] + ' ' + d[0]);
    const fits = make('p', null, 'fits');
    fits.append('Largest that still fits here: ',
      make('strong', [count(fit.cpus, 'CPU'), size(fit.memory.memory || 0), ...more].join(', ')));
    box.append(fits, occupants(node, found.devices));
    return [box];
  });
  const room = found.capacity || [];
  byId('capacity').hidden = !room.length;
  byId('capacity-list').replaceChildren(table(['shape', 'more pods', 'what stops the next one'],
    room.map(one => ({cells: [one.shape, one.pods, one.binding], names: ['name', 'num', 'text']})), ''));
  const bare = found.nodes.filter(isBare).map(node => node.id);
  if (bare.length) boxes.push(make('p', count(bare.length, 'NUMA node') +
    ' without CPUs and memory of any kind: ' + bare.join(', '), 'soft'));
  byId('nodes').replaceChildren(...boxes);
}

// Decisions.

const nodesText = hint => hint.nodes === null ? 'any node'
  : (hint.nodes.length === 1 ? 'node ' : 'nodes ') + hint.nodes.join(',');
function traceLines(steps) {
  const lines = [];
  for (const step of steps) {
    const where = step.container === null ? 'pod' : step.container;
    if (step.step === 'allocate') {
      lines.push(where + ': ' + step.provider + ' ' + (step.error || 'gave what was asked'));
      continue;
    }
    for (const [provider, answer] of Object.entries(step.providers)) {
      for (const [resource, found] of Object.entries(answer || {})) {
        if (found.affinity !== 'hints') {
          lines.push(where + ': ' + provider + ' can place ' + resource + ' ' + found.affinity);
          continue;
        }
        const best = found.hints.filter(h => h.preferred), others = found.hints.length - best.length;
        lines.push(where + ': ' + provider + ' would place ' + resource + ' on ' +
          (best.map(nodesText).join(' or ') || 'nothing preferred') +
          (others ? '; ' + others + (found.complete ? '' : ' or more') + ' not preferred' : ''));
      }
    }
    lines.push(where + ': together ' + nodesText(step.merged) +
      (step.merged.preferred ? ', preferred' : ', not preferred') +
      (step.admitted ? ': admitted' : ': refused by the topology policy'));
  }
  return lines.join('\n') || 'there was nothing to align';
}
function kubeletsWords(d) {
  return [d.reason, d.message].filter(Boolean).join(': ');
}
function whyLines(d) {
  const found = d.explanation;
  return found ? [...found.facts, `The kubelet's words: ${kubeletsWords(d)}`, '', ''].join('\n') : '';
}
function decisions(found) {
  const lines = found.items.map(d => {
    const key = d.uid + ' ' + d.time, isBad = d.outcome === 'pod_rejected';
    const details = make('details'), summary = make('summary',
      d.why || kubeletsWords(d) || 'show how it was decided');
    details.append(summary);
    const shown = () => {
      const pre = make('pre', traces.get(key) || 'loading');
      details.append(pre);
      if (!traces.has(key) && d.uid) {
        fetch('decisions?uid=' + encodeURIComponent(d.uid), {cache: 'no-store'})
          .then(answer => answer.json()).then(all => {
            const same = all.items.find(one => one.time === d.time);
            traces.set(key, same ? whyLines(same) + traceLines(same.trace)
              : 'the agent has forgotten it');
            pre.textContent = traces.get(key);
          }).catch(error => { pre.textContent = String(error); });
      }
    };
    if (open.has(key)) { details.open = true; shown(); }
    details.addEventListener('toggle', () => {
      if (details.open === open.has(key)) return;
      if (details.open) { open.add(key); shown(); } else {
        open.delete(key);
        details.querySelector('pre').remove();
      }
    });
    return {uid: d.uid, cells: [clock(d.time), (d.namespace ? d.namespace + '/' : '') + d.pod,
      make('span', isBad ? 'refused' : 'admitted', isBad ? 'bad' : 'good'), details],
      names: ['num', 'name', '', 'text']};
  });
  byId('decisions').replaceChildren(table(['time', 'pod', 'outcome', 'why'], lines, 'none yet'));
}

// Events.

const events = [];
function happened(name, text) {
  let values = {};
  try { values = JSON.parse(text); } catch (error) { values = {error: String(error)}; }
  const {time, pod, namespace, uid, ...others} = values;
  events.unshift({uid, cells: [clock(time || Date.now() / 1000),
    make('span', name.replaceAll('_', ' '), WARNINGS.has(name) ? 'wait' : ''),
    pod ? (namespace ? namespace + '/' : '') + pod : '',
    Object.entries(others).filter(e => e[0] !== 'seconds' && e[1] !== '').map(
      ([key, value]) => key.replaceAll('_', ' ') + ' ' +
        (typeof value === 'object' ? JSON.stringify(value) : value)).join(', ')],
    names: ['num', '', 'name', 'text']});
  events.length = Math.min(events.length, EVENTS_SHOWN);
  byId('events').replaceChildren(table(['time', 'event', 'pod', 'what'], events, ''));
  lookSoon(LOOK_AGAIN_MS);
}
function lamp(isOn, text) {
  byId('lamp').className = 'lamp ' + (isOn ? 'on' : 'off');
  byId('live').textContent = text;
}
function follow() {
  if (stored) return;
  if (stream) stream.close();
  stream = new EventSource('events');
  stream.onopen = () => look();
  stream.onerror = () => lamp(false, 'no live events; trying again');
  EVENTS.forEach(name => stream.addEventListener(name, event => happened(name, event.data)));
}

// Looking.

async function load(path, show) {
  if (stored) {
    if (last[path] === undefined && stored[path]) show(stored[path]);
    last[path] = '';
    return;
  }
  const answer = await fetch(path, {cache: 'no-store'});
  if (!answer.ok && path !== 'readyz') throw new Error(path + ': ' + answer.status);
  const text = await answer.text();
  if (last[path] === text) return;
  show(JSON.parse(text));
  last[path] = text;
}
function problems(found) {
  byId('problems').hidden = !found.problems.length;
  byId('problems').replaceChildren(...found.problems.map(text => make('li', text)));
}
function manifests(found) {
  byId('manifests').hidden = !found.directory;
  byId('manifests-where').textContent = found.directory;
  const lines = found.items.map(one => ({cells: [one.file,
    one.pods.map(pod => pod.namespace + '/' + pod.name).join(', '), one.problem || ''],
  names: ['', '', one.problem ? 'bad' : '']}));
  byId('manifests-list').replaceChildren(
    table(['File', 'Pods', 'Problem'], lines, 'no files are in it'));
}
async function look() {
  clearTimeout(timer);
  timer = null;
  try {
    await load('pods', pods);
    await Promise.all([load('node', machine), load('readyz', problems),
      load('manifests', manifests),
      load('decisions?trace=false&limit=' + DECISIONS_SHOWN, decisions)]);
    const isLive = stream && stream.readyState === EventSource.OPEN;
    lamp(true, stored ? stored.when : (isLive ? 'live, ' : '') + 'as of ' + new Date().toLocaleTimeString());
    choose(chosen);
  } catch (error) {
    lamp(false, 'the agent does not answer (' + error.message + '); what follows may be old');
  }
  if (!timer && !document.hidden && !stored) timer = setTimeout(look, LOOK_ANYWAY_MS);
}
function lookSoon(ms) {
  if (timer) clearTimeout(timer);
  timer = setTimeout(look, ms);
}
function choose(uid) {
  chosen = uid;
  const isThere = uid && document.querySelector('[data-uid="' + CSS.escape(uid) + '"]');
  document.querySelectorAll('.cores .cell, .who li').forEach(found =>
    found.classList.toggle('faded', Boolean(isThere) && found.dataset.uid !== uid));
}
document.addEventListener('pointerover', event => {
  const found = event.target.closest ? event.target.closest('[data-uid]') : null;
  const uid = found ? found.dataset.uid : null;
  if (uid !== chosen) choose(uid);
});
byId('filter').addEventListener('input', () => { delete last.pods; lookSoon(LOOK_AGAIN_MS); });
document.addEventListener('visibilitychange', () => {
  // A hidden page holds no stream and asks nothing.
  if (document.hidden) {
    clearTimeout(timer);
    timer = null;
    if (stream) stream.close();
  } else follow();
});
['pods', 'own', 'free', 'memory'].forEach(id => tile(id, '…', '', ''));
document.querySelectorAll('.running').forEach(part => { part.hidden = Boolean(stored); });
look();
follow();
