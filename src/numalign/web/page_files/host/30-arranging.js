// How many of equal things stand in a row, so that rows are equal and the width is used.
const CORE_GAP = 2, CACHE_EDGE = 10, CACHE_GAP = 5, ROW = 18, CAPTION = 13;
const NODE_LEAST = 292, SOCKET_LEAST = 330;

function inRow(number, most) {
  // The most that divides the number; where only thin columns would, a last row may be short.
  const top = Math.max(1, Math.min(number, Math.floor(most)));
  for (let n = top; n > top / 2; n--) if (number % n === 0) return n;
  for (let n = top; n >= 1; n--) if (number % n === 0 && n > 1) return n;
  return top;
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
