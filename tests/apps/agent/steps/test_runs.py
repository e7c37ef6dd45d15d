"""Commands in the foreground: answered in their place, queued in order, forgotten at their end."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent import saved
from numalign.apps.agent.model import Caller, Phase, Run
from numalign.apps.agent.steps.recovery import Ended, recovered
from numalign.core.explain.explain import explain
from numalign.wire.pods.annotations import TOPOLOGY_POLICY
from numalign.wire.pods.records import Metadata, PodRecord, PodSpec, PodStatusRecord

CALLER = Caller(4242, 77, "boot")


class RunHost(Host):
    """CPUs 2 to 7 can be given."""

    def __init__(self, **more):
        super().__init__(**more)
        self.setup = replace(self.setup, runs_processes=True)
        self.cases = {}

    def event(self, event):
        effects = super().event(event)
        self.cases |= {e.case.pod.uid: e.case for e in effects if isinstance(e, ev.Explain)}
        return effects

    def run(self, uid, cpu="2", *, waits=False, request=1, **annotations):
        container = replace_limits(box("run", memory="1Mi"), cpu)
        record = PodRecord(
            metadata=Metadata(name=uid, uid=uid, annotations=annotations or None),
            spec=PodSpec(containers=[container], restartPolicy="Never"),
            status=PodStatusRecord(qosClass="Guaranteed"),
        )
        asked = Run(replace(CALLER, boot=uid), waits=waits, request=request)
        return self.event(ev.PodSubmitted(uid, record, "run", self.now, request, run=asked))

    def explain(self, uid):
        return self.event(ev.RefusalExplained(uid, explain(self.cases[uid])))

    def waiting(self):
        return [uid for uid, pod in self.state.pods.items() if pod.waits_for_room]


def replace_limits(record, cpu):
    record.resources.limits = {"cpu": cpu}
    return record


def answers(effects):
    return [e for e in effects if isinstance(e, ev.Answer)]


def started_by(effects):
    return [e.uid for e in effects if isinstance(e, ev.StartContainer)]


def test_a_run_is_answered_when_its_process_is_in_its_place_and_not_before():
    host = RunHost()
    effects = host.run("p")
    assert kinds(effects)[0] == "Save" and started_by(effects) == ["p"]
    assert not answers(effects)
    [answer] = answers(host.started("p", "run"))
    assert (answer.request, answer.accepted, answer.reason) == (1, True, "")
    assert not answers(host.event(ev.Tick(1.0))), "it is answered once"


def test_cpus_of_its_own_need_no_memory_request():
    host = RunHost()
    [start] = [e for e in host.run("p", "2") if isinstance(e, ev.StartContainer)]
    assert start.cpus.bit_count() == 2
    assert start.cpus & host.state.host.cpu.shared == 0


def test_everything_is_given_back_and_nothing_is_kept_when_it_ends():
    host = RunHost()
    free = host.state.host.cpu.shared
    host.run("p")
    host.started("p", "run")
    effects = host.exited("p", "run", 3)
    assert host.state.host.cpu.shared == free
    assert not host.state.pods and "ForgetPod" in kinds(effects)


def test_a_process_that_could_not_be_put_in_its_place_is_told_why():
    host = RunHost()
    host.run("p")
    attempt = host.state.pods["p"].containers["run"].restarts
    effects = host.event(ev.ContainerExited("p", "run", attempt, 128, 0.0, "no such process"))
    [answer] = answers(effects)
    assert (answer.accepted, answer.reason) == (False, "StartError")
    assert answer.message == "no such process" and not host.state.pods


def test_a_refused_run_is_answered_once_it_is_explained_and_not_kept():
    host = RunHost()
    effects = host.run("p", "20")
    assert not answers(effects)
    [answer] = answers(host.explain("p"))
    assert not answer.accepted and answer.message.startswith("Allocate failed due to not enough")
    assert not host.state.pods and "p" in host.state.refusals


def test_a_refusal_that_nobody_can_explain_in_time_is_answered_all_the_same():
    host = RunHost()
    host.run("p", "20")
    assert not answers(host.event(ev.Tick(4.0)))
    [answer] = answers(host.event(ev.Tick(6.0)))
    assert not answer.accepted and not host.state.pods


def test_one_that_waits_is_told_what_for_and_starts_when_there_is_room():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    assert started_by(host.run("b", "6", waits=True, request=2)) == []
    [answer] = answers(host.explain("b"))
    assert (answer.accepted, answer.reason) == (True, "WaitingForRoom")
    assert started_by(host.exited("a", "run")) == ["b"]
    assert "b" not in host.state.refusals, "it was not refused in the end"


def test_those_who_wait_are_served_in_the_order_in_which_they_came():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    host.run("large", "6", waits=True, request=2)
    host.run("small", "1", waits=True, request=3)
    assert host.waiting() == ["large", "small"]
    assert started_by(host.exited("a", "run")) == ["large"], "the small one does not overtake"
    assert host.waiting() == ["small"]
    host.started("large", "run")
    assert started_by(host.exited("large", "run")) == ["small"]


def test_a_small_one_does_not_overtake_although_it_would_fit():
    host = RunHost()
    host.run("a", "5")
    host.started("a", "run")
    host.run("large", "6", waits=True, request=2)
    assert started_by(host.run("small", "1", waits=True, request=3)) == []
    [waiting] = [p for uid, p in host.state.pods.items() if uid == "small"]
    assert waiting.message == "it waits behind 1 other that came before it"
    assert started_by(host.run("now", "1", request=4)) == ["now"], "without --wait: at once"


def test_what_could_never_fit_is_refused_and_blocks_nobody():
    host = RunHost()
    host.run("huge", "20", waits=True)
    assert not host.waiting()
    [answer] = answers(host.explain("huge"))
    assert not answer.accepted


def test_waiting_writes_nothing_while_nothing_changes():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    host.run("b", "6", waits=True, request=2)
    host.explain("b")
    assert host.event(ev.Tick(100.0)) == []


def test_a_caller_that_is_gone_waits_no_longer():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    effects = host.run("b", "6", waits=True, request=2)
    assert [e.uid for e in effects if isinstance(e, ev.WatchCaller)] == ["b"]
    host.event(ev.CallerGone("b", 1.0))
    assert list(host.state.pods) == ["a"]
    host.event(ev.CallerGone("a", 1.0))
    assert "a" in host.state.pods, "the runtime tells how a command ends"


def test_one_that_is_deleted_while_somebody_waits_for_the_answer_is_told():
    host = RunHost()
    host.run("p", "20")
    effects = host.event(ev.PodDeleted("p", 0.0))
    assert [(a.accepted, a.reason) for a in answers(effects)] == [(False, "Deleted")]


def test_asking_again_after_a_restart_finds_the_same_run():
    host = RunHost()
    host.run("p")
    host.started("p", "run")
    [answer] = answers(host.run("p", request=9))
    assert (answer.request, answer.accepted) == (9, True)
    assert len(host.state.pods) == 1


def test_a_name_that_is_taken_is_told_at_once():
    host = RunHost()
    host.run("p")
    record = host.state.pods["p"].record
    asked = Run(CALLER, request=2)
    effects = host.event(ev.PodSubmitted("other", record, "run", 0.0, 2, run=asked))
    assert [(a.request, a.reason) for a in answers(effects)] == [(2, "AlreadyExists")]


def test_an_agent_that_runs_no_processes_says_so():
    host = RunHost()
    host.setup = replace(host.setup, runs_processes=False)
    [answer] = answers(host.run("p"))
    assert (answer.accepted, answer.reason) == (False, "RunNotSupported")


def test_a_run_is_decided_with_the_policy_that_it_asks_for():
    host = RunHost(nodes=2, cores=2)
    whole = str(host.state.host.cpu.shared.bit_count() - 2)
    host.run("strict", whole, **{TOPOLOGY_POLICY: "single-numa-node"})
    assert host.state.pods["strict"].reason == "TopologyAffinityError"
    assert started_by(host.run("loose", whole)) == ["loose"]


def restarted(host, alive=(), ended=None):
    pods = saved.load(saved.dump(host.state.pods))
    state, effects = recovered(
        host.setup,
        cpu=host.state.host.cpu,
        memory=host.state.host.memory,
        saved_devices=None,
        pods=pods,
        alive=dict.fromkeys(alive, 4242),
        ended=ended or {},
        now=host.now,
    )
    host.state = state
    return effects


def test_after_a_restart_a_run_goes_on_and_those_who_wait_keep_their_order():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    for uid in ("b", "c"):
        host.run(uid, "6", waits=True)
    effects = restarted(host, alive=[("a", "run")])
    assert host.state.pods["a"].phase is Phase.RUNNING
    assert {e.uid for e in effects if isinstance(e, ev.WatchCaller)} == {"b", "c"}
    host.event(ev.SourcesReady(0.0))
    assert started_by(host.exited("a", "run")) == ["b"]


def test_a_run_that_ended_while_the_agent_was_away_is_given_back_and_forgotten():
    host = RunHost()
    host.run("a", "6")
    host.started("a", "run")
    restarted(host, ended={("a", "run"): Ended(0, 0)})
    assert not host.state.pods
    host.event(ev.SourcesReady(0.0))
    assert not host.state.host.cpu.entries


def test_a_process_that_is_the_command_of_a_run_cannot_become_that_of_another():
    host = RunHost()
    host.run("a", "1")
    host.started("a", "run")
    record = host.state.pods["a"].record
    again = replace(host.state.pods["a"].run, request=2, ticket=0)
    effects = host.event(ev.PodSubmitted("b", record, "run", 0.0, 2, run=again))
    [answer] = answers(effects)
    assert (answer.accepted, answer.reason) == (False, "AlreadyRunning")
    assert list(host.state.pods) == ["a"]
