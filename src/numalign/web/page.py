"""One read-only page for people: pods, NUMA nodes with who sits where, the last decisions.

It is self-contained and reads the same JSON as everybody else. Its policy allows just this style
and this script, by their hashes; texts of pods are only ever set as text, never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882;--own:#2a9d8f;--shared:#e9c46a;
--kept:#888;--bad:#d1495b}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1rem}
h1{font-size:1.25rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:1.6rem 0 .5rem}
p{margin:.2rem 0;opacity:.8}table{border-collapse:collapse;width:100%}
.wide{overflow-x:auto}th,td{text-align:left;padding:.3rem .7rem .3rem 0;
border-bottom:1px solid var(--line);vertical-align:top}th{font-weight:600;opacity:.7}
.nodes{display:grid;gap:.8rem;grid-template-columns:repeat(auto-fill,minmax(19rem,1fr))}
.node{border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
.cpus{display:flex;flex-wrap:wrap;gap:3px;margin:.5rem 0}
.cpu{font:11px/1.7 ui-monospace,monospace;min-width:1.7rem;text-align:center;border-radius:3px;
background:var(--soft);color:inherit}
.exclusive{background:var(--own);color:#fff}.shared{background:var(--shared);color:#222}
.reserved{background:var(--kept);color:#fff}
ul{margin:.3rem 0;padding-left:1.1rem}.bad{color:var(--bad);font-weight:600}
.key{display:inline-block;padding:0 .5rem;border-radius:3px;margin-right:.4rem;font-size:12px}
"""

_SCRIPT: Final = """
'use strict';
const byId = id => document.getElementById(id);
function make(tag, text, name) {
  const found = document.createElement(tag);
  if (text !== undefined && text !== null) found.textContent = String(text);
  if (name) found.className = name;
  return found;
}
function list(text) {
  const found = [];
  for (const part of text ? text.split(',') : []) {
    const [first, last] = part.split('-').map(Number);
    for (let n = first; n <= (last === undefined ? first : last); n++) found.push(n);
  }
  return found;
}
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit++; }
  return bytes.toFixed(bytes % 1 ? 1 : 0) + ' ' + units[unit];
}
function rows(id, heads, lines) {
  const table = make('table');
  const head = make('tr');
  heads.forEach(text => head.append(make('th', text)));
  table.append(head);
  for (const line of lines) {
    const row = make('tr');
    line.forEach(cell => {
      const isNode = cell instanceof Node;
      const td = make('td', isNode ? null : cell);
      if (isNode) td.append(cell);
      row.append(td);
    });
    table.append(row);
  }
  byId(id).replaceChildren(lines.length ? table : make('p', 'none'));
}
function pods(found) {
  const heads = ['pod', 'phase', 'QoS', 'CPUs', 'memory on', 'devices', 'why'];
  rows('pods', heads, found.items.map(pod => {
    const placed = Object.values(pod.numalign.containers);
    const cpus = [...new Set(placed.map(c => c.cpus + (c.exclusive ? '' : ' (shared)')))];
    const nodes = new Set(placed.flatMap(c => c.memory.flatMap(b => b.nodes)));
    const devices = placed.flatMap(c =>
      Object.entries(c.devices).map(d => d[0] + ': ' + d[1].join(' ')));
    const status = pod.status;
    const bad = status.phase === 'Failed' ? 'bad' : '';
    return [pod.metadata.namespace + '/' + pod.metadata.name, make('span', status.phase, bad),
      status.qosClass, cpus.join(' | '), [...nodes].sort().join(', '), devices.join(' | '),
      [status.reason, status.message].filter(Boolean).join(': ')];
  }));
}
function nodes(found) {
  byId('machine').textContent = found.machine.name + ': ' + found.machine.cpuCount + ' CPUs, ' +
    size(found.machine.memoryBytes) + ', topology policy ' + found.settings.topologyManagerPolicy;
  const boxes = found.nodes.map((node, at) => {
    const box = make('div', null, 'node');
    box.append(make('strong', 'NUMA node ' + node.id));
    const owner = new Map();
    node.occupants.filter(o => o.exclusive).forEach(o =>
      list(o.cpus).forEach(cpu => owner.set(cpu, o.namespace + '/' + o.pod + ' ' + o.container)));
    const kept = new Set(list(node.cpus.reserved));
    const shared = new Set(list(node.cpus.shared));
    const cpus = make('div', null, 'cpus');
    for (const cpu of list(node.cpus.all)) {
      const kind = owner.has(cpu) ? 'exclusive' : kept.has(cpu) ? 'reserved'
        : shared.has(cpu) ? 'shared' : '';
      const chip = make('span', cpu, 'cpu ' + kind);
      chip.title = owner.get(cpu) || kind;
      cpus.append(chip);
    }
    box.append(cpus);
    node.memory.filter(m => m.totalBytes).forEach(m => box.append(make('p',
      m.type + ': ' + size(m.freeBytes) + ' free of ' + size(m.totalBytes))));
    const fit = found.largest[at];
    box.append(make('p', 'still fits: ' + fit.cpus + ' CPUs with ' + size(fit.memory.memory || 0)));
    const who = make('ul');
    node.occupants.filter(o => o.exclusive || o.memory.length).forEach(o => who.append(make('li',
      o.namespace + '/' + o.pod + ' ' + o.container + (o.exclusive ? ': CPUs ' + o.cpus : '') +
      o.memory.map(b => ', ' + size(b.sizeBytes) + ' ' + b.type).join(''))));
    box.append(who);
    return box;
  });
  byId('nodes').replaceChildren(...boxes);
}
function decisions(found) {
  rows('decisions', ['time', 'pod', 'outcome', 'why'], found.items.slice(0, 20).map(d => [
    new Date(d.time * 1000).toLocaleTimeString(), (d.namespace || '') + '/' + d.pod,
    make('span', d.outcome.replace('pod_', ''), d.outcome === 'pod_rejected' ? 'bad' : ''),
    [d.reason, d.message].filter(Boolean).join(': ')]));
}
async function load(path, show) {
  const answer = await fetch(path, {cache: 'no-store'});
  if (!answer.ok) throw new Error(path + ': ' + answer.status);
  show(await answer.json());
}
async function refresh() {
  try {
    await Promise.all([load('pods', pods), load('node', nodes),
      load('decisions?limit=20', decisions)]);
    byId('state').textContent = 'as of ' + new Date().toLocaleTimeString();
  } catch (error) {
    byId('state').textContent = 'the agent does not answer: ' + error.message;
  }
  setTimeout(refresh, document.hidden ? 10000 : 2000);
}
refresh();
"""

_BODY: Final = """<h1>numalign</h1><p id="machine"></p><p id="state">loading</p>
<h2>NUMA nodes</h2>
<p><span class="key exclusive">exclusive</span><span class="key shared">shared</span>
<span class="key reserved">reserved</span></p>
<div id="nodes" class="nodes"></div>
<h2>Pods</h2><div id="pods" class="wide"></div>
<h2>Last decisions</h2><div id="decisions" class="wide"></div>
"""


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


CONTENT_POLICY: Final = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1">'
    f"<title>numalign</title><style>{_STYLE}</style></head>"
    f"<body>{_BODY}<script>{_SCRIPT}</script></body></html>\n"
)
