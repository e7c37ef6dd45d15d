// What the agent's answers mean for the page. Nothing here draws.
const RANK = {bad: 0, warn: 1, good: 2, soft: 3};

function stateOf(pod) {
  const status = pod.status;
  if (pod.numalign.deleting) return ['Terminating', 'warn'];
  if (status.reason) return [status.reason, status.phase === 'Failed' ? 'bad' : 'warn'];
  if (status.phase === 'Succeeded') return ['Completed', 'soft'];
  if (status.phase === 'Failed') return ['Error', 'bad'];
  if (pod.numalign.awaitedDevices.length) return ['AwaitingDevices', 'warn'];
  for (const one of statuses(pod)) {
    const waiting = one.state.waiting;
    if (waiting && waiting.reason && waiting.reason !== 'PodInitializing')
      return [waiting.reason, 'warn'];
  }
  return status.phase === 'Running' ? ['Running', 'good'] : [status.phase, 'warn'];
}
const statuses = pod => [...pod.status.initContainerStatuses || [],
  ...pod.status.containerStatuses || []];
function ownerOf(pod) {
  const found = (pod.metadata.ownerReferences || []).find(one => one.controller);
  return found ? `${found.kind}/${found.name}` : '';
}
function podOf(pod) {
  const placed = Object.entries(pod.numalign.containers), own = placed.filter(([, c]) => c.exclusive);
  const blocks = [...pod.numalign.podMemory || [], ...placed.flatMap(([, c]) => c.memory)];
  const [state, kind] = stateOf(pod), judged = placed.filter(([, c]) => c.aligned !== null);
  const cpus = [...new Set([...numbers(pod.numalign.podCpus || ''),
    ...own.flatMap(([, c]) => numbers(c.cpus))])];
  const pool = [...new Set(placed.filter(([, c]) => !c.exclusive).flatMap(([, c]) => numbers(c.cpus)))];
  const devices = placed.flatMap(([, c]) => Object.entries(c.devices).flatMap(
    ([resource, ids]) => ids.map((id, at) => ({resource, id, nodes: c.deviceNodes[resource][at]}))));
  const far = placed.map(([, c]) => c.distance).filter(d => d !== null);
  const nodes = new Set([...(cpus.length ? own.flatMap(([, c]) => c.cpuNodes) : []),
    ...blocks.flatMap(b => b.nodes), ...devices.flatMap(d => d.nodes)]);
  const found = {
    uid: pod.metadata.uid, namespace: pod.metadata.namespace, name: pod.metadata.name,
    key: `${pod.metadata.namespace}/${pod.metadata.name}`, owner: ownerOf(pod), state, kind,
    rank: RANK[kind], cpus, pool, blocks, devices, nodes: [...nodes].sort((a, b) => a - b),
    bytes: blocks.filter(b => b.type === 'memory').reduce((sum, b) => sum + b.sizeBytes, 0),
    aligned: judged.length ? judged.every(([, c]) => c.aligned) : null,
    distance: far.length ? Math.max(...far) : null,
    isRefused: pod.status.phase === 'Failed' && Boolean(pod.status.reason) && !placed.length,
    why: pod.numalign.why || '', message: pod.status.message || '', qos: pod.status.qosClass,
    restarts: statuses(pod).reduce((sum, c) => sum + c.restartCount, 0),
    created: Date.parse(pod.metadata.creationTimestamp) / 1000, source: pod,
  };
  found.search = [found.key, found.owner, state, found.why, found.message, found.qos,
    ...devices.map(d => `${d.resource} ${d.id}`)].join(' ').toLowerCase();
  return found;
}
function troubles(pod) {
  const found = [];
  for (const one of statuses(pod.source)) {
    const state = one.state.waiting || one.state.terminated;
    if (state && state.message) found.push(`${one.name}: ${state.message}`);
    else if (state && state.exitCode) found.push(`${one.name}: exit code ${state.exitCode}`);
  }
  return found;
}

// Who has each CPU: uid, container, and which shade of the pod's colour it has.
function holders(node, pods) {
  const found = new Map(), byUid = new Map(pods.map(pod => [pod.uid, pod]));
  for (const pod of pods)
    for (const cpu of numbers(pod.source.numalign.podCpus || ''))
      found.set(cpu, {uid: pod.uid, container: '', shade: 0});
  for (const one of node.nodes)
    for (const o of one.occupants) {
      if (!o.exclusive) continue;
      const pod = byUid.get(o.uid);
      const names = pod ? Object.keys(pod.source.numalign.containers) : [];
      for (const cpu of numbers(o.cpus))
        found.set(cpu, {uid: o.uid, container: o.container, shade: Math.max(0, names.indexOf(o.container))});
    }
  return found;
}
// Of one kind of memory on one node: who has how much. What several nodes give together is split
// as the blocks are, since nobody knows better.
function memoryParts(one, occupants, node) {
  const parts = [];
  let alone = 0, together = 0;
  for (const o of occupants)
    for (const block of o.memory) {
      if (block.type !== one.type) continue;
      const isAlone = block.nodes.length === 1;
      parts.push({uid: o.uid, container: o.container, bytes: block.sizeBytes, nodes: block.nodes});
      if (isAlone) alone += block.sizeBytes; else together += block.sizeBytes;
    }
  const here = Math.max(0, one.usedBytes - alone);
  const byPod = new Map();
  for (const part of parts) {
    const bytes = part.nodes.length === 1 ? part.bytes : together ? here * part.bytes / together : 0;
    const known = byPod.get(part.uid) || {uid: part.uid, bytes: 0, whole: 0, nodes: [node]};
    known.bytes += bytes;
    known.whole += part.bytes;
    if (part.nodes.length > 1) known.nodes = part.nodes;
    byPod.set(part.uid, known);
  }
  return [...byPod.values()];
}
const memoryName = type => type === 'memory' ? 'memory' : type.replace('hugepages-', '') + ' pages';
const isBare = node => !node.cpus.all && !node.memory.some(m => m.totalBytes) && !(map.built.get(node.id) || {}).sizeBytes;

// How a decision was made, one fact per line.
const hintNodes = hint => hint.nodes === null ? 'any node' : nodesWord(hint.nodes);
function traceLines(steps) {
  const lines = [];
  for (const step of steps) {
    const where = step.container === null ? 'pod' : step.container;
    if (step.step === 'allocate') {
      lines.push(`${where}: ${step.provider} ${step.error || 'gave what was asked'}`);
      continue;
    }
    for (const [provider, answer] of Object.entries(step.providers))
      for (const [resource, found] of Object.entries(answer || {})) {
        if (found.affinity !== 'hints') {
          lines.push(`${where}: ${provider} can place ${resource} ${found.affinity}`);
          continue;
        }
        const best = found.hints.filter(h => h.preferred), others = found.hints.length - best.length;
        lines.push(`${where}: ${provider} would place ${resource} on ` +
          (best.map(hintNodes).join(' or ') || 'nothing preferred') +
          (others ? `; ${others}${found.complete ? '' : ' or more'} not preferred` : ''));
      }
    lines.push(`${where}: together ${hintNodes(step.merged)}` +
      (step.merged.preferred ? ', preferred' : ', not preferred') +
      (step.admitted ? ': admitted' : ': refused by the topology policy'));
  }
  return lines.length ? lines : ['there was nothing to align'];
}
