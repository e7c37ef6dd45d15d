// The past: a slider over what the agent remembers, and charts of the last hours.
const MOMENTS_ASKED = 300, CHART_W = 260, CHART_H = 44, AGAIN_MS = 2000;
const WORDS = {pod_admitted: 'admitted', pod_rejected: 'refused', pod_finished: 'finished', pod_deleted: 'deleted',
  devices_reported: 'devices reported', devices_gone: 'devices gone', started: 'the agent started'};
const past = {moments: [], series: null, at: null, timer: null};
const isPast = () => past.at !== null;

function lookAtHistorySoon() {
  // What just happened is written a moment later.
  if (!past.series) lookAtHistory();
  if (!past.timer) past.timer = setTimeout(() => { past.timer = null; lookAtHistory(); }, AGAIN_MS);
}
async function lookAtHistory() {
  if (!has('history')) { byId('time').hidden = true; return; }
  try {
    const found = await ask(`history?limit=${MOMENTS_ASKED}`);
    past.moments = found.moments;
    past.series = found.series;
  } catch (error) { return; }
  byId('time').hidden = !past.moments.length;
  const slider = byId('slider');
  slider.max = past.moments.length;
  slider.value = isPast() ? Math.max(0, past.moments.findIndex(m => m.id === past.at)) : past.moments.length;
  drawMoment();
  drawCharts();
}
const momentText = m => `${[m.namespace && `${m.namespace}/${m.pod}`, WORDS[m.what] || m.what.replaceAll('_', ' ')].filter(Boolean).join(' ')}`;
function drawMoment() {
  const m = past.moments.find(one => one.id === past.at), slider = byId('slider');
  const text = m ? `${clock(m.time)}, ${span(Date.now() / 1000 - m.time)} ago: ${momentText(m)}` : `now; ${past.moments.length} remembered`;
  byId('moment').textContent = text;
  slider.setAttribute('aria-valuetext', text);
  byId('later').disabled = byId('to-now').disabled = !m;
  byId('earlier').disabled = Number(slider.value) === 0;
  byId('past').hidden = !m;
  document.body.classList.toggle('is-past', Boolean(m));
  if (m) {
    const parts = [make('b', `The past: ${clock(m.time)}`), make('span', `${span(Date.now() / 1000 - m.time)} ago, after ${momentText(m)}`)];
    if (m.why || m.message) parts.push(make('span', m.why || m.message, 'wraps'));
    parts.push(button('Back to now', 'plain', () => goTo(null)));
    fill('past', ...parts);
  }
}
let going = 0;
async function goTo(at) {
  // The moment with this place in the list; null: now.
  const m = at === null || at >= past.moments.length ? null : past.moments[Math.max(0, at)];
  byId('slider').value = m ? at : past.moments.length;
  past.at = m ? m.id : null;
  drawMoment();
  drawCharts();
  const mine = ++going;
  clearGhosts();
  fill('answer');
  if (!m) { drawAll(nowView()); return; }
  try {
    const found = await ask(`history/${m.id}?trace=true`);
    if (mine !== going) return;  // the slider has gone on
    drawAll(viewOf(found.node, found.pods, m.time, m));
    drawMomentTrace(m, found);
  } catch (error) {
    if (mine === going) byId('past').append(make('span', `It cannot be shown: ${error.message}`, 'wraps'));
  }
}
function drawMomentTrace(m, found) {
  if (!found.trace || !found.trace.length) return;
  const box = make('details'), pre = make('pre', traceLines(found.trace).join('\n'));
  box.append(make('summary', 'how it was decided'), pre);
  byId('past').append(box);
}
const place = () => isPast() ? past.moments.findIndex(m => m.id === past.at) : past.moments.length;

// Charts: values that hold until the next time.

function drawCharts() {
  const s = past.series;
  if (!s || !s.times.length) { fill('charts'); return; }
  const now = Date.now() / 1000, percent = (list, most) => list.map(v => most ? v / most : 0);
  const sum = list => list.reduce((a, b) => a + b, 0), end = list => list[list.length - 1];
  const charts = [
    chart('CPUs given', percent(s.cpusGiven, s.cpus), `${end(s.cpusGiven)} of ${s.cpus}`, now),
    chart('Memory given', percent(s.memoryGiven, s.memory), share(end(s.memoryGiven), s.memory).join(' '), now),
    chart('Pods refused', scaled(s.refused), `${sum(s.refused)} in ${shortSpan(now - s.times[0])}`, now, true),
    chart('Fragmented CPUs', s.fragments.map(v => v === null ? 0 : v), end(s.fragments) === null ? 'none' : `${Math.round(end(s.fragments) * 100)} %`, now),
  ];
  if (s.devices) charts.splice(2, 0, chart('Devices given', percent(s.devicesGiven, s.devices), `${end(s.devicesGiven)} of ${s.devices}`, now));
  fill('charts', ...charts);
}
const scaled = list => { const most = Math.max(1, ...list); return list.map(v => v / most); };
function chart(title, values, text, now, isBars) {
  const times = past.series.times, first = times[0], all = Math.max(60, now - first);
  const x = t => (t - first) / all * CHART_W, y = v => CHART_H - 2 - Math.min(1, v) * (CHART_H - 5);
  const picture = drawn('svg', {viewBox: `0 0 ${CHART_W} ${CHART_H}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `${title}: ${text}, since ${clock(first)}`});
  picture.append(drawn('line', {x1: 0, x2: CHART_W, y1: CHART_H - 2, y2: CHART_H - 2, class: 'ground'}));
  if (isBars) {
    values.forEach((v, i) => { if (v) picture.append(drawn('line', {x1: x(times[i]), x2: x(times[i]), y1: CHART_H - 2, y2: y(v), class: 'refusal'})); });
  } else {
    let path = `M0 ${y(values[0])}`;
    for (let i = 1; i < times.length; i++) path += `H${x(times[i]).toFixed(1)}V${y(values[i]).toFixed(1)}`;
    path += `H${CHART_W}`;
    picture.append(drawn('path', {d: `${path}V${CHART_H - 2}H0Z`, class: 'area'}), drawn('path', {d: path, class: 'curve'}));
  }
  const m = past.moments.find(one => one.id === past.at);
  if (m && m.time >= first) picture.append(drawn('line', {x1: x(m.time), x2: x(m.time), y1: 0, y2: CHART_H, class: 'cursor'}));
  const box = make('figure', '', 'chart'), caption = make('figcaption');
  caption.append(make('span', title, 'soft'), make('b', text));
  const since = make('div', '', 'soft since');
  since.append(make('span', `${shortSpan(now - first)} ago`), make('span', 'now'));
  box.append(caption, picture, since);
  return box;
}
