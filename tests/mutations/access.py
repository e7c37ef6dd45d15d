"""Breakages of who may do what (paths, sockets, secrets, limits) and of what others see."""

MUTATIONS = [
    (
        "a directory above the state may be anybody's",
        "src/numalign/adapters/local/private.py",
        "    _check_owner(at, found)\n    is_sticky",
        "    is_sticky",
        "tests/adapters/local/test_private.py",
    ),
    (
        "a sticky directory is taken for a private one",
        "src/numalign/adapters/local/private.py",
        "is_sticky = (names or is_shared) and found",
        "is_sticky = found",
        "tests/adapters/local/test_private.py",
    ),
    (
        "one client takes all connections",
        "src/numalign/web/serving/connections.py",
        "        if len(self._visits) >= self._limits.connections_max:\n            return self._replace()\n",
        "",
        "tests/web/serving/test_connections.py",
    ),
    (
        "the last descriptors go to connections",
        "src/numalign/web/serving/connections.py",
        "        return self._limits.leaves_descriptors() or self._replace()",
        "        return True",
        "tests/web/serving/test_connections.py",
    ),
    (
        "copies of the spec are shown to everybody",
        "src/numalign/apps/agent/views/pods.py",
        "if annotations and not env:",
        "if annotations and False:",
        "tests/web/test_api.py",
    ),
    (
        "a name that begins like one of ours is ours",
        "src/numalign/web/requests.py",
        "found = _HOST.fullmatch(header)",
        "found = _HOST.match(header)",
        "tests/web/test_api.py",
    ),
    (
        "a web page may bind pods",
        "src/numalign/web/extender.py",
        "            access.check_sender(request)\n",
        "",
        "tests/web/test_extender.py",
    ),
    (
        "the sockets share one budget of streams",
        "src/numalign/web/application.py",
        "    app.state.budget = Budget(api.limits.streams_max, api.limits.costly_max)",
        '    app.state.budget = api.budget = getattr(api, "budget", None) or Budget(\n'
        "        api.limits.streams_max, api.limits.costly_max\n    )",
        "tests/web/test_api.py",
    ),
    (
        "a column of top may be cut to nothing",
        "src/numalign/cli/client/top_view.py",
        "min_width=least, overflow",
        "no_wrap=index < 4, overflow",
        "tests/cli/client/test_rows_of_nodes.py",
    ),
    (
        "a CPU counts for every container that has it",
        "src/numalign/cli/client/agent_rows.py",
        "        groups[tuple(who)] = groups.get(tuple(who), 0) | 1 << cpu\n",
        "        for one in who:\n            groups[one,] = groups.get((one,), 0) | 1 << cpu\n",
        "tests/cli/client/test_rows_of_nodes.py",
    ),
]
