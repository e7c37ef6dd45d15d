"""Breakages where room is made, held and shared: victims, gangs, rules between pods."""

_APP = "src/numalign/apps/scheduler"
_CORE = "src/numalign/core/cluster"
_STEPS = "tests/apps/scheduler/room/test_preemption.py tests/apps/scheduler/room/test_exact_room.py"
_GANGS = "tests/apps/scheduler/room/test_gangs.py tests/apps/scheduler/room/test_exact_room.py"
_PURE = "tests/core/cluster/between_pods"

MUTATIONS = (
    (
        "room that is held for a pod is given to another one",
        f"{_APP}/find_host.py",
        "if name in state.room.held and not victims.would_take(state, pod, requests, name):",
        "if name in state.room.held and not state.hosts:",
        _STEPS,
    ),
    (
        "a pod is evicted before its place is promised to anybody",
        f"{_APP}/room/preemption.py",
        "    return message, [\n        room_events.Nominate(pod, host),",
        "    return message, [\n        *_next_victim(state, uid, now),\n"
        "        room_events.Nominate(pod, host),",
        _STEPS,
    ),
    (
        "after a refused eviction the next victim goes all the same",
        f"{_APP}/room/preemption.py",
        "            *_given_up(state, event.uid, event.now),",
        "            *_next_victim(state, event.uid, event.now),",
        _STEPS,
    ),
    (
        "a replica that lost the lease goes on evicting",
        f"{_APP}/step.py",
        "        preemption.forget_all(state)\n",
        "",
        "tests/apps/scheduler/room/test_preemption.py",
    ),
    (
        "disruption budgets are overdrawn",
        f"{_CORE}/between_pods/victims.py",
        "return all(budgets.count(name) <= self.allowed.get(name, 0) for name in set(budgets))",
        "return True",
        _PURE,
    ),
    (
        "the first set of victims is taken, not the smallest",
        f"{_CORE}/between_pods/victims.py",
        "    return _smaller(search, ordered, best) or best",
        "    return best",
        _PURE,
    ),
    (
        "what the victims hold is taken for free without asking the host's managers",
        f"{_CORE}/scheduling/ledger.py",
        "    verdict, states = checked(book, pod)\n    if not isinstance(verdict, Admitted):\n"
        "        return False\n    waiting",
        "    verdict, states = checked(book, pod)\n    waiting",
        _STEPS,
    ),
    (
        "a gang that does not fit keeps the room of those that would",
        f"{_APP}/room/gangs.py",
        "    trial.take_back()\n",
        "",
        _GANGS,
    ),
    (
        "a gang that failed leaves traces on its hosts",
        f"{_CORE}/scheduling/fleet.py",
        "        known.doubtful, known.ledger = mark.doubtful, mark.ledger\n",
        "        known.doubtful = mark.doubtful\n",
        _GANGS,
    ),
    (
        "the only gang with too few pods is evicted",
        f"{_CORE}/between_pods/gangs.py",
        "    if len(late) < 2:",
        "    if not late:",
        f"{_PURE} tests/apps/scheduler/room/test_gangs.py",
    ),
    (
        "the anti-affinity of pods that run is forgotten",
        f"{_CORE}/between_pods/neighbours.py",
        "        for term in pod.repels:\n            self._repelling.setdefault",
        "        for term in ():\n            self._repelling.setdefault",
        _PURE,
    ),
    (
        "pods that are leaving count for an even spread",
        f"{_CORE}/between_pods/neighbours.py",
        "            if is_in and (scope.counts_leaving or not pod.is_leaving):",
        "            if is_in:",
        _PURE,
    ),
)
