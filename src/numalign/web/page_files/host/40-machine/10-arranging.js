// How many of equal things stand in a row, so that rows are equal and the width is used.
const CORE_GAP = 2, CACHE_EDGE = 10, CACHE_GAP = 5, ROW = 18, CAPTION = 13;
const NODE_LEAST = 236, NODE_GAP = 6, SOCKET_GAP = 8, SOCKET_EDGE = 18;

function inRow(number, most) {
  // The most that divides the number; where only thin columns would, a last row may be short.
  const top = Math.max(1, Math.min(number, Math.floor(most)));
  for (let n = top; n > top / 2; n--) if (number % n === 0) return n;
  for (let n = top; n >= 1; n--) if (number % n === 0 && n > 1) return n;
  return top;
}
function socketsInRow(width, sockets, nodes) {
  // Such that all NUMA nodes stand in the fewest rows; then with the fewest sockets in a row.
  let best = {across: 1, nodes: 1, rows: Infinity};
  for (let across = 1; across <= sockets; across++) {
    if (sockets % across) continue;
    const room = (width - SOCKET_GAP * (across - 1)) / across - SOCKET_EDGE;
    if (room < NODE_LEAST && across > 1) break;
    const each = inRow(nodes, (room + NODE_GAP) / (NODE_LEAST + NODE_GAP));
    const rows = sockets / across * Math.ceil(nodes / each);
    if (rows < best.rows) best = {across, nodes: each, rows};
  }
  return best;
}
function arranged(width, caches, cores, coreWidth, isNamed) {
  // Caches side by side and cores in each: the lowest of all that fit, and then the one with the
  // fewest rows of cores, as the eye follows rows.
  let best = {across: 1, cores: 1, height: Infinity};
  for (let across = 1; across <= caches; across++) {
    if (caches % across && across !== caches) continue;
    const room = (width - CACHE_GAP * (across - 1)) / across - (isNamed ? CACHE_EDGE : 0);
    const most = (room + CORE_GAP) / (coreWidth + CORE_GAP);
    if (most < 1 && across > 1) continue;
    const each = inRow(cores, most);
    const height = Math.ceil(caches / across) *
      (Math.ceil(cores / each) * (ROW + CORE_GAP) + (isNamed ? CAPTION + CACHE_EDGE : 0));
    if (height < best.height || height === best.height && each > best.cores)
      best = {across, cores: each, height};
  }
  return best;
}
