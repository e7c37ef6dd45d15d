"""Breakages of the page that a person on call would not notice at once; they need Chromium."""

import shutil

_HOST = "src/numalign/web/page_files/host/"
_STYLE = "src/numalign/web/page_files/style/"
_ALL = [
    (
        "rows of CPUs are unequal",
        _HOST + "40-machine/10-arranging.js",
        "n > top / 2; n--) if (number % n === 0) return n;",
        "n > top / 2; n--) return n;",
        "tests/page/test_map.py -k equal_at_every",
    ),
    (
        "pods differ by colour alone",
        _HOST + "10-looks.js",
        "`p${n % PATTERNS}`",
        "'p0'",
        "tests/page/test_map.py -k pattern",
    ),
    (
        "a lit pod lacks CPUs",
        _HOST + "40-machine/50-lighting.js",
        "(cell.dataset.uid === uid ||",
        "(",
        "tests/page/test_map.py -k pointing",
    ),
    (
        "huge pages count as memory",
        _HOST + "20-reading.js",
        "      if (block.type !== one.type) continue;\n",
        "",
        "tests/page/test_map.py -k split",
    ),
    (
        "a refused replica is hidden below its owner",
        _HOST + "50-pods.js",
        "members.filter(p => p.rank === 0).slice(0, WRONG_SHOWN)",
        "[]",
        "tests/page/test_pods.py -k first",
    ),
    (
        "an address that is no name breaks the page",
        _HOST + "60-dock.js",
        "try { return decodeURIComponent(text); } catch (error) { return text; }",
        "return decodeURIComponent(text);",
        "tests/page/test_pods.py -k link",
    ),
    (
        "an answer is drawn only in part",
        _HOST + "70-asking.js",
        "drawGhosts(found.items)",
        "drawGhosts(found.items.slice(0, 1))",
        "tests/page/test_asking.py -k several",
    ),
    (
        "a Burstable pod is asked about as a Guaranteed one",
        _HOST + "95-start.js",
        "askWhatFits(kind ? {manifest: manifestText(formValues())} : ",
        "askWhatFits(",
        "tests/page/test_asking.py -k requests_only",
    ),
    (
        "text is too light to read",
        _STYLE + "base.css",
        "--soft: #55606e;",
        "--soft: #99a0a8;",
        "tests/page/test_looks.py -k axe",
    ),
    (
        "names of pods are HTML",
        _HOST + "00-words.js",
        "found.textContent = String(text)",
        "found.innerHTML = String(text)",
        "tests/page/test_looks.py -k hostile",
    ),
    (
        "the map is built anew at every event",
        _HOST + "40-machine/30-drawing.js",
        "  if (map.text !== text) {",
        "  if (map.text !== null) {",
        "tests/page/test_live.py -k touched",
    ),
    (
        "events put the next look off for ever",
        _HOST + "90-live.js",
        "  if (link.soon) return;\n",
        "",
        "tests/page/test_live.py -k storm",
    ),
    (
        "a lost connection does not say how old the data is",
        _HOST + "90-live.js",
        "`What you see is ${span(old)} old. `",
        "''",
        "tests/page/test_live.py -k gone",
    ),
    (
        "the present is drawn over the past",
        _HOST + "90-live.js",
        "if (!isPast()) drawAll(nowView());",
        "drawAll(nowView());",
        "tests/page/test_time.py -k meanwhile",
    ),
]
# Without it their tests are skipped, which says nothing.
MUTATIONS = _ALL if shutil.which("chromium") else []
