// How pods are told apart: by colour, by pattern and by letters, so that none of them is needed.
// White text on each colour has a contrast of at least 5 to 1; patterns only darken.
const COLOURS = ['#1d4e89', '#9c3d00', '#0b6e4f', '#8f2d56', '#4b5bb5', '#6b5200', '#2b6777',
  '#a3333d', '#6a4c93', '#3f6212', '#862e9c', '#5d4037'];
const PATTERNS = 7;
const SHADES = 4, SHADE_STEP = 0.17;
const looks = new Map();  // pod uid -> look, for as long as the page is open

function letters(n) {
  let text = '';
  for (let at = n + 1; at > 0; at = Math.floor((at - 1) / 26))
    text = String.fromCharCode(65 + (at - 1) % 26) + text;
  return text;
}
function darker(colour, share) {
  const parts = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  return '#' + parts.map(p => Math.round(p * (1 - share)).toString(16).padStart(2, '0')).join('');
}
function lookOf(uid) {
  if (!looks.has(uid)) {
    const n = looks.size, colour = COLOURS[n % COLOURS.length];
    looks.set(uid, {code: letters(n), pattern: `p${n % PATTERNS}`,
      shades: Array.from({length: SHADES}, (_, at) => darker(colour, at * SHADE_STEP))});
  }
  return looks.get(uid);
}
function paint(element, uid, shade = 0) {
  const own = lookOf(uid);
  element.classList.add('own', own.pattern);
  element.style.setProperty('--c', own.shades[Math.min(shade, SHADES - 1)]);
  element.dataset.uid = uid;
  element.dataset.code = own.code;
  return element;
}
function tag(uid) {
  const found = make('i', lookOf(uid).code, 'tag');
  found.setAttribute('aria-hidden', 'true');
  return paint(found, uid);
}
