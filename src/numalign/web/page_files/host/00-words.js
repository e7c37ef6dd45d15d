// Elements, and how numbers, sizes and times are written. Texts of pods are set as text only.
const byId = id => document.getElementById(id);

function make(tag, text, name) {
  const found = document.createElement(tag);
  if (text !== undefined && text !== null && text !== '') found.textContent = String(text);
  if (name) found.className = name;
  return found;
}
function button(text, name, act) {
  const found = make('button', text, name);
  found.type = 'button';
  if (act) found.addEventListener('click', act);
  return found;
}
function fill(where, ...what) {
  const found = typeof where === 'string' ? byId(where) : where;
  found.replaceChildren(...what.filter(one => one !== null && one !== undefined));
  return found;
}
function drawn(tag, values) {
  const found = document.createElementNS(byId('svg').namespaceURI, tag);
  for (const [name, value] of Object.entries(values)) found.setAttribute(name, value);
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
function ranges(ids) {
  const sorted = [...new Set(ids)].sort((a, b) => a - b), parts = [];
  for (let i = 0; i < sorted.length; i++) {
    const first = sorted[i];
    while (sorted[i + 1] === sorted[i] + 1) i++;
    parts.push(first === sorted[i] ? `${first}` : `${first}-${sorted[i]}`);
  }
  return parts.join(',');
}
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit++; }
  return bytes.toFixed(bytes % 1 && bytes < 100 ? 1 : 0) + ' ' + units[unit];
}
function bytesOf(quantity) {
  const found = /^([0-9.]+)(m|[kMGTPE]i?|Ki)?$/.exec(quantity || '0');
  if (!found) return 0;
  const unit = found[2] || '', power = 'kKMGTPE'.indexOf(unit[0]);
  return unit === 'm' ? found[1] / 1000 : Number(found[1]) * (power < 0 ? 1 : (unit[1] ? 1024 : 1000) ** Math.max(1, power));
}
const count = (n, noun, more) => `${n} ${n === 1 ? noun : more || noun + 's'}`;
const nodesWord = ids => (ids.length === 1 ? 'node ' : 'nodes ') + ranges(ids);
// Of a list of CPUs or a name of a resource what is short enough for a row.
const short = (text, most) => text.length <= most ? text : text.slice(0, most - 1) + '…';
const plainName = resource => resource.slice(resource.lastIndexOf('/') + 1);

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, letter, next, more] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'],
    [60, 'min', 1, 's']])
    if (whole >= unit) {
      const rest = Math.floor(whole % unit / next);
      return `${Math.floor(whole / unit)} ${letter}${rest ? ` ${rest} ${more}` : ''}`;
    }
  return `${whole} s`;
}
const shortSpan = seconds => span(seconds).split(' ').slice(0, 2).join(' ');
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString();
function listed(text) {
  // A list of CPUs may be broken behind a comma, never at a hyphen.
  const found = make('span', '', 'mono');
  text.split(/(?<=,)/).forEach(part => found.append(make('span', part, 'part'), make('wbr')));
  return found;
}
function table(heads, rows, names) {
  // A column in which nothing stands is left out.
  const kept = heads.map((_, at) => rows.some(row => row[at] instanceof Node
    ? row[at].textContent : row[at] || row[at] === 0));
  const found = make('table'), head = make('tr'), top = make('thead'), body = make('tbody');
  heads.forEach((text, at) => {
    if (!kept[at]) return;
    const th = make('th', text, names && names[at]);
    th.scope = 'col';
    head.append(th);
  });
  for (const row of rows) {
    const tr = make('tr');
    row.forEach((cell, at) => {
      if (!kept[at]) return;
      const td = make('td', cell instanceof Node ? '' : cell, names && names[at]);
      if (heads[at]) td.dataset.label = heads[at];
      if (cell instanceof Node) td.append(cell);
      tr.append(td);
    });
    body.append(tr);
  }
  top.append(head);
  found.append(top, body);
  return found;
}
