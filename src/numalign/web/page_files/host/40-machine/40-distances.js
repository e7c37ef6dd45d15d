// Distances between NUMA nodes as a heat map, on demand.
const HEAT = [[247, 251, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]];

function heatColours(shade) {
  // The colour, and black or white on it, whichever is easier to read.
  const at = shade * (HEAT.length - 1), step = Math.min(Math.floor(at), HEAT.length - 2);
  const parts = HEAT[step].map((a, i) => Math.round(a + (HEAT[step + 1][i] - a) * (at - step)));
  const [r, g, b] = parts.map(p => (p /= 255) <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4);
  return [`rgb(${parts.join(',')})`, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff'];
}
function drawDistances(layout) {
  const found = layout.distances;
  if (!found) {
    fill('distances', make('p', 'The distances between NUMA nodes are not known, or there is one node.', 'soft'));
    return;
  }
  const grid = make('table'), top = make('tr'), head = make('thead'), body = make('tbody');
  grid.append(make('caption', 'Distance from the CPUs of a row to the memory of a column; 10 is local'));
  top.append(make('td'));
  for (const name of found.groups) {
    const th = make('th', name);
    th.scope = 'col';
    top.append(th);
  }
  found.rows.forEach((row, at) => {
    const tr = make('tr'), th = make('th', found.groups[at]);
    th.scope = 'row';
    tr.append(th);
    for (const values of row) {
      const td = make('td', values.join('/')), shade = found.shades[values[values.length - 1]];
      [td.style.background, td.style.color] = heatColours(shade);
      tr.append(td);
    }
    body.append(tr);
  });
  head.append(top);
  grid.append(head, body);
  fill('distances', grid);
}
function showFar(node, chosen) {
  // How far every other node is from the chosen one, beside its name.
  const row = chosen === null ? null : (node.nodes.find(one => one.id === chosen) || {}).distances;
  node.nodes.forEach((one, at) => {
    const parts = map.nodes.get(one.id);
    if (parts && parts.far)
      parts.far.textContent = row && one.id !== chosen ? `distance ${row[at]}` : '';
  });
}
