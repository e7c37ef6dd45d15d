// What is lit: the CPUs, memory and devices of one pod, or one node; and what an asked pod would get.
const lit = {uid: null, node: null, ghosts: []};

function light(uid, node = null) {
  lit.uid = uid; lit.node = node;
  const pod = uid && view ? view.pods.find(one => one.uid === uid) : null;
  const root = byId('map'), pool = new Set(pod ? pod.pool : []);
  root.classList.toggle('dim', Boolean(pod) && (pod.cpus.length > 0 || pod.pool.length > 0 || pod.nodes.length > 0));
  for (const [cpu, cell] of map.cells)
    cell.classList.toggle('lit', Boolean(pod) && (cell.dataset.uid === uid || !cell.dataset.uid && pool.has(cpu)));
  for (const found of root.querySelectorAll('.bar i, .device, .who .chip, .who .tag, .memory-node'))
    found.classList.toggle('lit', Boolean(uid) && found.dataset.uid === uid);
  for (const [id, parts] of map.nodes)
    for (const one of [parts, ...parts.others || []]) one.box.classList.toggle('chosen', id !== null && id === node);
}
function clearGhosts() {
  for (const found of lit.ghosts) {
    found.classList.remove('ghost');
    delete found.dataset.ghost;
    if (found.isAdded) found.remove();
  }
  lit.ghosts = [];
  byId('map').classList.remove('asking');
}
function drawGhosts(items) {
  // Where pods that were only asked about would sit, numbered as they were asked.
  clearGhosts();
  const admitted = items.filter(one => one.admitted);
  admitted.forEach((one, at) => {
    const mark = admitted.length > 1 ? `+${at + 1}` : '+';
    for (const node of one.map) for (const cpu of numbers(node.pod)) ghost(map.cells.get(cpu), mark);
    for (const placed of one.placements || []) {
      for (const [resource, ids] of Object.entries(placed.devices))
        for (const id of ids)
          ghost(byId('map').querySelector(`.device[data-resource="${CSS.escape(resource)}"][data-id="${CSS.escape(id)}"]`), mark);
      for (const block of placed.memory) ghostMemory(block, mark);
    }
  });
  byId('map').classList.toggle('asking', lit.ghosts.length > 0);
}
function ghost(found, mark) {
  if (!found) return;
  found.classList.add('ghost');
  found.dataset.ghost = mark;
  lit.ghosts.push(found);
}
function ghostMemory(block, mark) {
  for (const id of block.nodes) {
    const parts = map.nodes.get(id), node = view.node.nodes.find(one => one.id === id);
    const table = node && node.memory.find(one => one.type === block.type);
    if (!parts || !table) continue;
    const bar = parts.bar || parts.memory.querySelector(`.bar[data-type="${CSS.escape(block.type)}"]`);
    const found = make('i');
    found.style.width = `${block.sizeBytes / block.nodes.length / table.totalBytes * 100}%`;
    found.dataset.about = `${size(block.sizeBytes)} ${memoryName(block.type)} would be given from ${nodesWord(block.nodes)}`;
    found.isAdded = true;
    bar.append(found);
    ghost(found, mark);
  }
}
