// Asking and following. Every event makes the page look again, a moment later and for all events of
// that moment together; while nothing happens only the stream says that the agent is there.
const SOON_MS = 200, ANYWAY_MS = 15000, TICK_MS = 1000, STILL_MS = 40000, DECISIONS_ASKED = 100;
const ANSWER_MS = 20000;
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const EVENTS = ['pod_admitted', 'pod_rejected', 'pod_deferred', 'pod_finished', 'pod_deleted', 'refusal_explained',
  'container_started', 'container_exited', 'container_postponed', 'container_unhealthy', 'container_ready',
  'devices_reported', 'devices_gone', 'devices_not_given', 'drift_repaired', 'fields_not_carried_out',
  'memory_policy_not_set', 'cpus_offline', 'cpus_online', 'clock_moved', 'agent_halted', 'event_failed', 'events_lost',
  'host_changed'];  // the last: of a host in a fleet
const texts = {}, values = {};  // what was answered last, by path
let view = null, decisions = [], revision = 0, stream = null;
const link = {good: 0, shown: Date.now(), soon: false, wrong: '', tries: 0, again: 0, timer: null, problems: 0, isLooking: false, isWanted: false};

async function ask(path, options) {
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS), ...options});
  const text = await answer.text();
  if (!answer.ok) {
    let told = '';
    try { told = JSON.parse(text).error; } catch (error) { told = ''; }
    if (answer.status === 429) told = `${told || 'too many questions'}; try again in ${answer.headers.get('retry-after') || 1} s`;
    throw new Error(told || `${path}: ${answer.status}`);
  }
  return JSON.parse(text);
}
async function load(path, isOptional) {
  // Whether it has changed.
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS)});
  const text = await answer.text();
  if (!answer.ok && path !== 'readyz') {
    if (isOptional) return false;
    throw new Error(`${path}: ${answer.status}`);
  }
  if (texts[path] === text) return false;
  values[path] = JSON.parse(text);
  texts[path] = text;
  return true;
}
const source = () => (values.node && values.node.source) || {kind: 'agent', live: true, has: ['manifests', 'metrics']};
const has = name => (source().has || []).includes(name);

async function look() {
  if (link.isLooking) { link.isWanted = true; return; }
  link.isLooking = true;
  rest();
  try {
    const changed = await Promise.all([load('node'), load('pods'), load('readyz')]);
    const isNew = changed[0] || changed[1];
    const same = values.node && has('manifests') && await load('manifests', true);
    const list = `decisions?trace=false&limit=${DECISIONS_ASKED}`;
    const told = (isNew || !values[list]) && await load(list, true);
    link.good = Date.now();
    link.wrong = '';
    link.tries = 0;
    if (changed[2]) drawProblems(values.readyz);
    if (same) drawManifests(values.manifests);
    if (told) { decisions = values[list].items; drawDecisions(); }
    if (isNew) {
      revision++;
      if (!isPast()) drawAll(nowView());
      lookAtHistorySoon();
      lookAtShapes();
      askForHints();
    }
  } catch (error) {
    link.wrong = error.message || String(error);
  }
  link.isLooking = false;
  drawLink();
  if (link.isWanted) { link.isWanted = false; lookSoon(); } else if (!isFollowing() && !document.hidden) lookAgain();
}
function lookAgain() {
  const wait = link.wrong ? RETRY_MS[Math.min(link.tries++, RETRY_MS.length - 1)] : ANYWAY_MS;
  link.again = Date.now() + wait;
  clearTimeout(link.timer);
  link.timer = setTimeout(() => { if (!isFollowing()) follow(); look(); }, wait);
}
function lookSoon() {
  // Not put off by the next event: there may always be one.
  if (link.soon) return;
  rest();
  link.soon = true;
  link.timer = setTimeout(look, SOON_MS);
}
function rest() {
  clearTimeout(link.timer);
  link.timer = null;
  link.soon = false;
}
const isFollowing = () => Boolean(stream) && stream.readyState === EventSource.OPEN;
function follow() {
  if (stream) stream.close();
  if (document.hidden) return;
  stream = new EventSource('events');
  stream.onopen = () => { heard(); look(); };
  stream.onerror = () => {
    // The browser tries again by itself after a broken connection, not after an answer such as 503.
    if (!link.wrong) lookSoon();
    drawLink();
  };
  EVENTS.forEach(name => stream.addEventListener(name, () => { heard(); lookSoon(); }));
  stream.addEventListener('still', event => {
    heard();
    let told = 0;
    try { told = JSON.parse(event.data).problems; } catch (error) { told = 0; }
    if (told !== link.problems || link.wrong) look();
    link.problems = told;
    drawLink();
  });
}
function heard() { if (!link.wrong) link.good = Date.now(); }

function drawLink() {
  const about = source(), old = (Date.now() - link.good) / 1000;
  const isStale = about.live !== false && Date.now() - Math.max(link.good, link.shown) > STILL_MS;
  const isLost = Boolean(link.wrong) || isStale;
  byId('lamp').className = `lamp ${isLost ? 'off' : link.good ? 'on' : ''}`;
  const live = isLost ? 'not connected' : !link.good ? 'connecting'
    : about.live === false ? about.at ? `not live: as of ${new Date(about.at * 1000).toLocaleString()}` : 'not live' : isFollowing() ? `live, as of ${clock(link.good / 1000)}`
      : `as of ${clock(link.good / 1000)}, asked every ${ANYWAY_MS / 1000} s`;
  if (byId('live').textContent !== live) byId('live').textContent = live;
  byId('lost').hidden = !isLost;
  document.body.classList.toggle('is-lost', isLost);
  document.title = (isLost ? '⚠ ' : '') + (values.node ? `${values.node.machine.name || 'host'} – numalign` : 'numalign');
  if (!isLost) { byId('lost').replaceChildren(); return; }
  const lost = byId('lost');
  if (!lost.children.length) {
    fill(lost, make('b'), make('span'), make('span', '', 'age'), button('Try now', 'plain', () => { follow(); look(); }));
    lost.firstChild.setAttribute('role', 'alert');  // not the age, which changes every second
  }
  const [title, why, next] = lost.children;
  const text = link.good ? 'No connection to the agent' : 'The agent does not answer';
  if (title.textContent !== text) title.textContent = text;
  why.textContent = link.wrong && link.wrong !== 'Failed to fetch' ? `(${link.wrong})` : '';
  next.textContent = (link.good ? `What you see is ${span(old)} old. ` : '') +
    (link.wrong && link.again > Date.now() ? `Trying again in ${Math.ceil((link.again - Date.now()) / 1000)} s.` : 'Trying again.');
}
function tick() {
  // Ages go on; so does the wait for the next try.
  if (document.hidden) return;
  drawLink();
  if (isFollowing() && Date.now() - link.good > STILL_MS && source().live !== false) look();
}
