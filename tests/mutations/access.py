"""Breakages of who may do what: paths, sockets, secrets and limits."""

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
]
