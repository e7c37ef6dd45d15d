"""Applied pods: new ones come, changed ones are replaced, unwanted ones go, names stay unique."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent import saved
from numalign.apps.agent.model import Phase, Successor
from numalign.apps.agent.steps.recovery import recovered
from numalign.wire.pods.records import Metadata, OwnerReference, PodRecord, PodSpec

OWNER = OwnerReference("apps/v1", "Deployment", "web", controller=True)


def record(name, cpu="1", owner=OWNER, namespace="", policy="Always"):
    metadata = Metadata(name=name, namespace=namespace, ownerReferences=[owner] if owner else None)
    return PodRecord(
        metadata=metadata, spec=PodSpec(containers=[box(cpu=cpu)], restartPolicy=policy)
    )


def apply(host, *wanted, owner=("Deployment", "web")):
    """Applies (uid, record) pairs; the answers in order, the last one for all."""
    pods = tuple(ev.Wanted(uid, one, number) for number, (uid, one) in enumerate(wanted))
    effects = host.event(ev.PodsApplied(pods, "api", host.now, len(pods), "default", owner))
    answers = {e.request: e for e in effects if isinstance(e, ev.Answer)}
    return [answers[number] for number in range(len(pods) + 1)], effects


def run(host):
    """Has every container that was started run."""
    for uid, known in host.state.pods.items():
        for name, status in known.containers.items():
            if status.state == "starting":
                host.started(uid, name)


def shown(host):
    return {
        uid: (known.pod.name, "ending" if known.deleting else known.reason or known.phase.value)
        for uid, known in host.state.pods.items()
    }


def test_pods_come_stay_and_go_as_they_are_wanted():
    host = Host()
    apply(host, ("a", record("web-0")), ("b", record("web-1")))
    run(host)
    answers, _ = apply(host, ("x", record("web-0")), ("y", record("web-1")), ("z", record("web-2")))
    assert [(a.uid, a.result) for a in answers[:3]] == [
        ("a", "unchanged"),
        ("b", "unchanged"),
        ("z", ""),
    ]
    answers, effects = apply(host, ("v", record("web-0")))
    assert [p.pod.name for p in answers[-1].removed] == ["web-1", "web-2"]
    assert "StopContainer" in kinds(effects)
    assert {name for name, state in shown(host).values() if state == "ending"} == {
        "web-1",
        "web-2",
    }


def test_pods_of_others_are_left_alone():
    host = Host()
    other = replace_owner("StatefulSet")
    apply(host, ("o", record("web-9", owner=other)), owner=("StatefulSet", "web"))
    apply(host, ("s", record("web-8", owner=None)), owner=None)
    answers, _ = apply(host, ("a", record("web-0")))
    assert answers[-1].removed == ()
    answers, _ = apply(host)
    assert [p.pod.uid for p in answers[-1].removed] == ["a"]
    assert set(host.state.pods) - {"a"} == {"o", "s"}


def replace_owner(kind):
    return OwnerReference("apps/v1", kind, "web", controller=True)


def test_a_changed_template_waits_until_all_old_pods_have_ended_and_then_fits():
    host = Host()  # six CPUs to give
    apply(host, ("a", record("web-0", "2")), ("b", record("web-1", "2")))
    run(host)
    answers, _ = apply(host, ("c", record("web-0", "3")), ("d", record("web-1", "3")))
    assert [(x.accepted, x.result, x.reason) for x in answers[:2]] == [
        (True, "replaced", "WaitingForPredecessor")
    ] * 2
    assert shown(host)["c"] == ("web-0", "WaitingForPredecessor")
    host.exited("a", "c", 143)
    assert shown(host)["c"] == ("web-0", "WaitingForPredecessor"), "web-1 holds two CPUs still"
    effects = host.event(ev.ContainerExited("b", "c", 0, 143, host.now))
    assert [e.uid for e in effects if isinstance(e, ev.StartContainer)] == ["c", "d"]
    assert set(host.state.pods) == {"c", "d"}


def test_what_has_no_process_is_replaced_at_once():
    host = Host()
    apply(host, ("a", record("web-0", "20")))
    assert host.state.pods["a"].phase is Phase.FAILED
    answers, _ = apply(host, ("b", record("web-0", "1")))
    assert (answers[0].accepted, answers[0].result, answers[0].reason) == (True, "replaced", "")
    assert set(host.state.pods) == {"b"}


def test_a_finished_job_is_not_run_again_but_a_failed_one_is():
    host = Host()
    job = OwnerReference("batch/v1", "Job", "web", controller=True)
    wanted = record("web-0", owner=job, policy="Never")
    for code, result in ((0, "unchanged"), (1, "replaced")):
        uid = f"u{code}"
        apply(host, (uid, wanted), owner=("Job", "web"))
        run(host)
        host.exited(uid, "c", code)
        answers, _ = apply(host, ("again", wanted), owner=("Job", "web"))
        assert answers[0].result == result
        apply(host, owner=("Job", "web"))


def test_the_second_pod_of_a_name_is_refused_with_a_sentence():
    host = Host()
    apply(host, ("a", record("web-0")))
    answers, _ = apply(host, ("b", record("web-0", owner=None)), owner=None)
    assert not answers[0].accepted and answers[0].reason == "AlreadyExists"
    assert answers[0].message == (
        "pod default/web-0 exists already, one of Deployment web (from api); delete it first, or "
        "give this one another name"
    )
    effects = host.event(ev.PodSubmitted("f", record("web-0"), "file:b.yaml", host.now))
    [note] = [e.note for e in effects if isinstance(e, ev.Publish)]
    assert (note.reason, note.pod.uid) == ("AlreadyExists", "f")
    assert set(host.state.pods) == {"a"}
    host.event(ev.PodSubmitted("g", record("web-0", namespace="n"), "file:b.yaml", host.now))
    assert set(host.state.pods) == {"a", "g"}


def test_a_file_that_is_changed_and_changed_back_runs_its_pod_again():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web-0"), "file:f", host.now))
    run(host)
    host.event(ev.PodDeleted("a", host.now))
    host.event(ev.PodSubmitted("b", record("web-0", "2"), "file:f", host.now))
    host.event(ev.PodDeleted("b", host.now))
    host.event(ev.PodSubmitted("a", record("web-0"), "file:f", host.now))
    assert shown(host) == {"a": ("web-0", "ending")}
    effects = host.event(ev.ContainerExited("a", "c", 0, 143, host.now))
    assert [e.uid for e in effects if isinstance(e, ev.StartContainer)] == ["a"]
    assert kinds(effects).index("ForgetPod") < kinds(effects).index("StartContainer")


def test_what_is_not_wanted_again_after_all_is_gone():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web-0"), "file:f", host.now))
    run(host)
    host.event(ev.PodDeleted("a", host.now))
    host.event(ev.PodSubmitted("a", record("web-0"), "file:f", host.now))
    host.event(ev.PodDeleted("a", host.now))
    host.exited("a", "c", 143)
    assert not host.state.pods


def test_pods_that_wait_for_a_name_do_so_after_a_restart():
    host = Host()
    apply(host, ("a", record("web-0")))
    run(host)
    apply(host, ("b", record("web-0", "2")))
    kept = saved.load(saved.dump(host.state.pods))
    assert kept == host.state.pods
    again = replace(host.state.pods["a"], successor=Successor(record("web-0", "3"), "file:f"))
    assert saved.load(saved.dump({"a": again})) == {"a": again}
    state, effects = recovered(
        host.setup,
        cpu=host.state.host.cpu,
        memory=host.state.host.memory,
        saved_devices=host.state.host.devices.saved,
        pods=kept,
        alive={("a", "c"): 7},
        ended={},
        now=1.0,
    )
    assert state.pods["b"].waits_for_name and "b" not in state.host.pods
    assert not [e for e in effects if isinstance(e, ev.StartContainer)]
    host.state = state
    host.exited("a", "c", 143)
    assert "b" in host.state.host.pods and "a" not in host.state.pods


def test_pods_that_left_the_directory_end_before_new_ones_are_asked_for():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web-0"), "file:old.yaml", host.now))
    host.event(ev.PodSubmitted("s", record("stays"), "api", host.now))
    run(host)
    host.event(ev.PodDeleted("a", host.now))
    host.event(ev.PodSubmitted("b", record("web-0"), "file:new.yaml", host.now))
    assert shown(host)["a"] == ("web-0", "ending")
    assert shown(host)["b"] == ("web-0", "WaitingForPredecessor")
    assert shown(host)["s"][1] == "Running"


def test_a_manifest_whose_name_is_taken_is_told_once_and_decided_when_the_name_is_free():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web-0"), "api", host.now))
    run(host)
    first = host.event(ev.PodSubmitted("b", record("web-0"), "file:f", host.now))
    assert [e.note.reason for e in first if isinstance(e, ev.Publish)] == ["AlreadyExists"]
    assert "exists already" in host.state.put_off["b"].why
    assert not host.event(ev.Tick(host.now))
    host.event(ev.PodDeleted("a", host.now))
    host.exited("a", "c", 143)
    assert "b" in host.state.host.pods and not host.state.put_off


def test_a_manifest_that_waits_for_room_is_forgotten_with_its_file():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web-0"), "api", host.now))
    host.event(ev.PodSubmitted("b", record("web-0"), "file:f", host.now))
    host.event(ev.PodDeleted("b", host.now))
    assert not host.state.put_off


def test_manifests_beyond_the_limit_of_pods_are_taken_in_their_order_when_others_end():
    host = Host()
    host.setup = replace(host.setup, totals={**host.setup.totals, "pods": 1})
    for uid in "abc":
        host.event(ev.PodSubmitted(uid, record(uid), f"file:{uid}", host.now))
    assert list(host.state.host.pods) == ["a"] and list(host.state.put_off) == ["b", "c"]
    run(host)
    host.event(ev.PodDeleted("a", host.now))
    host.exited("a", "c", 143)
    assert list(host.state.host.pods) == ["b"] and list(host.state.put_off) == ["c"]


def test_another_pod_of_the_same_file_waits_for_the_one_that_it_replaces():
    host = Host()
    host.event(ev.PodSubmitted("a", record("old", owner=None), "file:f", host.now))
    run(host)
    host.event(ev.PodDeleted("a", host.now))
    host.event(ev.PodSubmitted("b", record("new", owner=None), "file:f", host.now))
    host.event(ev.PodSubmitted("c", record("other", owner=None), "file:g", host.now))
    assert shown(host)["b"] == ("new", "WaitingForPredecessor")
    assert "c" in host.state.host.pods
    host.exited("a", "c", 143)
    assert "b" in host.state.host.pods


def test_a_file_that_was_renamed_gives_its_pod_another_source():
    host = Host()
    host.event(ev.PodSubmitted("a", record("web"), "file:f", host.now))
    effects = host.event(ev.PodSubmitted("a", record("web"), "file:g", host.now))
    assert host.state.pods["a"].source == "file:g"
    assert [type(e).__name__ for e in effects] == ["Save"]
