import random

from numalign.core.fleet.board import UNFIT, Board, first_best


def test_kept_scores_are_those_of_a_new_board_whatever_changed():
    rng = random.Random(5)
    hosts = [[rng.randrange(10)] for _ in range(30)]
    board = Board(hosts)
    for _ in range(300):
        wanted = rng.randrange(4)
        found = board.scores(wanted, lambda host, w=wanted: host[0] * w % 7)
        assert found.tolist() == [host[0] * wanted % 7 for host in hosts]
        for _ in range(rng.randrange(4)):
            changed = rng.randrange(30)
            hosts[changed][0] = rng.randrange(10)
            board.changed(changed)


def test_only_changed_hosts_are_scored_again():
    asked = []
    board = Board([10, 20, 30])

    def score(host):
        asked.append(host)
        return host

    board.scores("a", score)
    board.changed(1)
    board.scores("a", score)
    assert asked == [10, 20, 30, 20]


def test_the_first_of_equal_hosts_is_chosen():
    board = Board([UNFIT, 3, 7, 7])
    assert first_best(board.scores("a", lambda host: host)) == 2


def test_no_host_is_chosen_where_none_fits():
    assert first_best(Board([1, 2]).scores("a", lambda _: UNFIT)) is None


def test_a_log_that_was_cut_off_loses_no_change():
    hosts = [1, 2]
    board = Board(hosts)
    board.scores("a", lambda host: host)
    hosts[0] = 9
    board.changed(0)
    for _ in range(70_000):
        board.changed(1)
    assert board.scores("a", lambda host: host).tolist() == [9, 2]
