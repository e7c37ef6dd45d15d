"""Breakages of what a process may do and who it is; the real ones need root."""

AGENT = "src/numalign/apps/agent"
FIELDS = "tests/wire/pods/test_fields.py"
RULES = "tests/wire/pods/test_confinement.py"
PROBES = "tests/apps/agent/steps/test_probes.py"
WISHES = "tests/apps/agent/steps/test_wishes.py"
PROBING = "tests/adapters/processes/test_probing.py"
REAL = "tests/apps/agent/test_confined_processes.py"
CONFINE = "src/numalign/adapters/processes/confine.py"
CONFINEMENT = "src/numalign/wire/pods/confinement.py"

MUTATIONS = [
    (
        "a member of v1.Pod is in no row",
        "src/numalign/wire/pods/fields.py",
        '    _both("spec.tolerations", _NO_SCHEDULER),\n',
        "",
        FIELDS,
    ),
    (
        "an unknown member is passed over",
        "src/numalign/wire/pods/unheeded.py",
        "return row is None or row.process.care",
        "return row is not None and row.process.care",
        FIELDS,
    ),
    (
        "anybody may ask for any user",
        CONFINEMENT,
        "if wish.uid != asker.uid and not asker.is_root:",
        "if False:",
        RULES,
    ),
    (
        "anybody may ask for any group",
        CONFINEMENT,
        "for group in wish.more_groups if not asker.has_group(group)]",
        "for group in wish.more_groups if False]",
        RULES,
    ),
    (
        "who must not be root is root",
        CONFINEMENT,
        "wish.pods.runAsNonRoot) and wish.uid == 0:",
        "wish.pods.runAsNonRoot) and wish.own.runAsUser == 0:",
        RULES,
    ),
    (
        "a volume fools a program with more rights",
        CONFINEMENT,
        "if container.volumeMounts and wish.uid != 0:",
        "if False:",
        RULES + " " + REAL,
    ),
    (
        "anybody has a container runtime do what it likes",
        f"{AGENT}/steps/wishes.py",
        "if setup.runs_containers and asker is not None and not asker.is_root:",
        "if False:",
        WISHES,
    ),
    (
        "a value without a source is not refused",
        f"{AGENT}/steps/wishes.py",
        "            if not setup.abilities.has_objects:\n",
        "            if False:\n",
        WISHES,
    ),
    (
        "a wish that is refused is admitted",
        f"{AGENT}/steps/admission.py",
        "if faults := wishes.refusals(setup, event.record, event.asker):",
        "if faults := []:",
        WISHES,
    ),
    (
        "a wish that does nothing is not told",
        f"{AGENT}/steps/admission.py",
        "        *wishes.tell(setup, new),\n",
        "",
        WISHES,
    ),
    (
        "a probe is well whatever the answer",
        "src/numalign/adapters/processes/probing.py",
        'return "" if 200 <= status < 400 else f"HTTP status {status}"',
        'return ""',
        PROBING,
    ),
    (
        "failures need not come in a row",
        f"{AGENT}/steps/probes.py",
        "before.in_a_row + 1 if event.ok is before.last_ok else 1",
        "before.in_a_row + 1",
        PROBES,
    ),
    (
        "a probe that was asked before a crash is waited for",
        f"{AGENT}/steps/recovery.py",
        "            is_asked=False,\n",
        "",
        PROBES,
    ),
    (
        "a startup probe holds nobody back",
        f"{AGENT}/steps/probes.py",
        "is_turn = not is_up if kind is ProbeKind.STARTUP else is_up",
        "is_turn = True",
        PROBES,
    ),
    (
        "a pod is active for as long as it likes",
        f"{AGENT}/steps/lifecycle.py",
        "if limit is None or now - known.created_at < limit:",
        "if True:",
        PROBES,
    ),
    (
        "dropped capabilities stay in the bounding set",
        CONFINE,
        "                _prctl(PR_CAPBSET_DROP, number)\n",
        "                pass\n",
        REAL,
    ),
    (
        "a process keeps its user",
        CONFINE,
        "        os.setresuid(uid, uid, uid)\n",
        "",
        REAL,
    ),
    (
        "the groups of the agent are kept",
        CONFINE,
        '        os.setgroups(ids(spec["groups"][0]))\n',
        "",
        REAL,
    ),
    (
        "rights can be gained again",
        CONFINE,
        "        _prctl(PR_SET_NO_NEW_PRIVS, 1)\n",
        "        pass\n",
        REAL,
    ),
    (
        "paths of mounts are looked up as root",
        CONFINE,
        'self.asker = None if own or "asker" not in spec else ids(spec["asker"][0])',
        "self.asker = None",
        REAL,
    ),
    (
        "a read-only root can be written",
        CONFINE,
        '        _set_attributes("/", _Attributes(set=MOUNT_ATTR_RDONLY))\n',
        "",
        REAL,
    ),
    (
        "a process inside a container keeps the agent's rights",
        "src/numalign/adapters/processes/shim.py",
        "    confine.give_up_rights(spec)\n",
        "    if inside is None:\n        confine.give_up_rights(spec)\n",
        REAL,
    ),
    (
        "a manifest that others can write is run by root",
        "src/numalign/adapters/local/askers.py",
        "if os.geteuid() == 0 and found.st_mode & _OTHERS_WRITE:",
        "if False:",
        REAL,
    ),
    (
        "a directory that others can write is read by root",
        "src/numalign/adapters/local/askers.py",
        "if found.st_uid != 0 or found.st_mode & _OTHERS_WRITE:",
        "if False:",
        REAL,
    ),
    (
        "who comes over the socket counts as the agent",
        "src/numalign/web/requests.py",
        'found = getattr(request.state, "asker", None)',
        "found = None",
        REAL,
    ),
    (
        "the owner of a manifest counts as the agent",
        f"{AGENT}/watching/manifests.py",
        "m.source, now, asker=m.asker)",
        "m.source, now)",
        REAL,
    ),
    (
        "a hook before the end is left out",
        f"{AGENT}/driver.py",
        "if effect.pre_stop is not None and effect.record is not None:",
        "if False:",
        REAL,
    ),
]
