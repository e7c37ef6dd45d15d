// The hosts that are known, and which of them are shown, in which order.
const known = new Map();  // name -> tile
let fleet = null, shown = [];
const ONLY = {
  stranded: tile => Boolean(tile.stranded), stale: tile => Boolean(tile.stale),
  refused: tile => Boolean(tile.refused), unready: tile => Boolean(tile.unready),
};
const ONLY_WORDS = {stranded: 'stranded', stale: 'stale', refused: 'refusing pods', unready: 'not ready'};
const sum = (tile, name, at) => (tile.nodes || []).reduce((total, node) => total + node[name][at], 0);
const largest = tile => Math.max(0, ...(tile.nodes || []).map(node => node.cpus[0]));
const byName = new Intl.Collator(undefined, {numeric: true}).compare;
const ORDERS = {
  name: ['by name', () => 0],
  free: ['most free CPUs', tile => -sum(tile, 'cpus', 0)],
  node: ['most free CPUs on one NUMA node', tile => -largest(tile)],
  full: ['fewest free CPUs', tile => sum(tile, 'cpus', 0)],
  stranded: ['stranded first', tile => -(tile.stranded || []).length],
  refused: ['most refusals', tile => -(tile.refused || 0)],
  stale: ['stale first', tile => tile.stale ? 0 : 1],
};
const choice = {text: '', pool: '', policy: '', order: 'name', only: new Set()};

function readChoice() {
  const found = new URLSearchParams(location.hash.slice(1));
  choice.text = found.get('q') || '';
  choice.pool = found.get('pool') || '';
  choice.policy = found.get('policy') || '';
  const order = found.get('sort') || '';
  choice.order = Object.hasOwn(ORDERS, order) || order.startsWith('fits:') ? order : 'name';
  choice.only = new Set((found.get('only') || '').split(',').filter(name => Object.hasOwn(ONLY, name)));
}
function keepChoice() {
  const found = new URLSearchParams();
  for (const [name, value] of [['q', choice.text], ['pool', choice.pool], ['policy', choice.policy],
    ['sort', choice.order === 'name' ? '' : choice.order], ['only', [...choice.only].join(',')]])
    if (value) found.set(name, value);
  const text = found.toString();
  history.replaceState(null, '', text ? `#${text}` : location.pathname);
}
function chooseShown() {
  const words = choice.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const shape = choice.order.startsWith('fits:') ? choice.order.slice(5) : null;
  const rank = shape === null ? ORDERS[choice.order][1] : tile => -((tile.fits || {})[shape] || 0);
  const kept = [];
  for (const tile of known.values()) {
    if (choice.pool && (tile.pool || '') !== choice.pool) continue;
    if (choice.policy && (tile.policy || '') !== choice.policy) continue;
    if (![...choice.only].every(name => ONLY[name](tile))) continue;
    const text = `${tile.name} ${tile.pool || ''} ${tile.policy || ''} ${tile.stale || ''}`.toLowerCase();
    if (words.every(word => text.includes(word))) kept.push([rank(tile), tile]);
  }
  kept.sort((a, b) => a[0] - b[0] || byName(a[1].name, b[1].name));
  shown = kept.map(pair => pair[1]);
}
function take(found) {
  if (found.full) known.clear();
  for (const name of found.gone || []) known.delete(name);
  for (const tile of found.hosts) known.set(tile.name, tile);
  fleet = found;
}
