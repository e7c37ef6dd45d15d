"""Which pod is next, and when."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.core.cluster.scheduling.queue import Queue, backoff_seconds


def drained(queue: Queue, now: float) -> list[str]:
    found = []
    while (uid := queue.pop(now)) is not None:
        found.append(uid)
    return found


def test_higher_priority_first_then_the_earlier():
    queue = Queue()
    queue.add("late", priority=0, now=2)
    queue.add("early", priority=0, now=1)
    queue.add("urgent", priority=10, now=3)
    assert drained(queue, 3) == ["urgent", "early", "late"]


def test_a_pod_that_is_told_twice_is_tried_once():
    queue = Queue()
    queue.add("a", priority=0, now=1)
    queue.add("a", priority=0, now=2)
    assert drained(queue, 2) == ["a"]


def test_back_off_doubles_from_one_to_ten_seconds():
    assert [backoff_seconds(n) for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]
    assert backoff_seconds(10**6) == 10


def test_a_failed_pod_rests():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    assert queue.pop(0) == "a"
    queue.back_off("a", 0)
    assert queue.next_at(0) == 1
    assert queue.pop(0.9) is None
    assert queue.pop(1) == "a"
    queue.back_off("a", 1)
    assert queue.next_at(1) == 3


def test_a_parked_pod_waits_for_a_change_and_its_back_off():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    queue.pop(0)
    queue.park("a", 0)
    assert queue.parked == 1
    assert queue.pop(100) is None
    assert queue.wake(None, 100) == 1
    assert queue.pop(100) == "a"
    queue.park("a", 100)  # the second failure: 2 s
    queue.wake(["a"], 100.5)
    assert queue.pop(100.5) is None
    assert queue.next_at(100.5) == 102
    assert queue.pop(102) == "a"


def test_a_parked_pod_is_tried_after_five_minutes_at_the_latest():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    queue.pop(0)
    queue.park("a", 0)
    assert queue.next_at(0) == 300
    assert queue.pop(299) is None
    assert queue.pop(300) == "a"
    assert queue.parked == 0


def test_waking_does_nothing_to_pods_that_do_not_wait_for_a_change():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    queue.pop(0)
    queue.back_off("a", 0)
    assert queue.wake(None, 0.5) == 0
    assert queue.pop(0.5) is None


def test_an_edited_pod_is_tried_at_once():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    queue.pop(0)
    queue.park("a", 0)
    queue.changed("a", 0.1)
    assert drained(queue, 0.1) == ["a"]


def test_a_removed_pod_is_never_tried():
    queue = Queue()
    queue.add("a", priority=0, now=0)
    queue.remove("a")
    assert queue.pop(0) is None
    assert queue.next_at(0) is None
    assert len(queue) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "pop", "park", "back_off", "wake", "remove", "changed"]),
            st.sampled_from("abc"),
            st.floats(0, 400),
        ),
        max_size=60,
    )
)
def test_no_waiting_pod_is_ever_lost(steps):
    queue, now, taken = Queue(), 0.0, set()
    for action, uid, wait in steps:
        now += wait
        if action == "add":
            queue.add(uid, priority=0, now=now)
        elif action == "pop":
            found = queue.pop(now)
            if found is not None:
                assert found not in taken, "given out twice"
                taken.add(found)
        elif action in ("park", "back_off") and uid in taken:
            getattr(queue, action)(uid, now)
            taken.discard(uid)
        elif action == "wake":
            queue.wake(None, now)
        elif action == "remove":
            queue.remove(uid)
            taken.discard(uid)
        elif action == "changed" and uid not in taken:
            queue.changed(uid, now)
    left = {uid for uid in "abc" if uid in queue} - taken
    assert set(drained(queue, now + 1_000)) == left
