"""One event at a time: what the agent becomes, and what it wants done."""

from dataclasses import replace

from tests.core.hosts import machine, settings

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import AgentSetup, AgentState, Phase, RunState
from numalign.apps.agent.notes import DevicesNotGiven
from numalign.apps.agent.step import step
from numalign.apps.agent.steps.recovery import Ended, recovered
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation, DeviceNode
from numalign.core.values.sets import parse_list
from numalign.wire.pods.records import ContainerRecord, Metadata, PodRecord, PodSpec, Resources


class Host:
    """An agent whose events are given one by one, and whose effects are kept."""

    def __init__(self, nodes=1, cores=4, **changes):
        configured = settings("best-effort", safe=True, memory=False, reserved="0-1", **changes)
        info = machine(nodes=nodes, cores=cores)
        built = hosts.build(configured, info)
        self.setup = AgentSetup(built, node_fit.allocatable(configured, info))
        self.state = AgentState(hosts.cleaned(built, hosts.start(built)))
        self.now = 0.0

    def event(self, event):
        self.state, effects = step(self.setup, self.state, event)
        return effects

    def submit(self, uid, *containers, inits=(), policy="Always", request=None):
        spec = PodSpec(
            containers=list(containers), initContainers=list(inits), restartPolicy=policy
        )
        record = PodRecord(metadata=Metadata(name=uid), spec=spec)
        return self.event(ev.PodSubmitted(uid, record, "api", self.now, request))

    def started(self, uid, name):
        attempt = self.state.pods[uid].containers[name].restarts
        return self.event(ev.ContainerStarted(uid, name, attempt, 100, self.now))

    def exited(self, uid, name, code=0):
        attempt = self.state.pods[uid].containers[name].restarts
        return self.event(ev.ContainerExited(uid, name, attempt, code, self.now))

    def status(self, uid, name):
        return self.state.pods[uid].containers[name]


def box(name="c", cpu=None, memory="64Mi", restart=None, **others):
    limits = {
        "memory": memory,
        **{k.replace("gpu", "example.com/gpu"): v for k, v in others.items()},
    }
    if cpu is not None:
        limits["cpu"] = cpu
    return ContainerRecord(name, resources=Resources(limits=limits), restartPolicy=restart)


def starts(effects):
    return [e.container for e in effects if isinstance(e, ev.StartContainer)]


def kinds(effects):
    return [type(e).__name__ for e in effects]


def test_an_admitted_pod_is_saved_then_answered_then_started_on_its_own_cpus():
    host = Host()
    effects = host.submit("p", box(cpu="2"), request=7)
    assert kinds(effects)[0] == "Save"
    assert kinds(effects).index("Answer") < kinds(effects).index("StartContainer")
    [start] = [e for e in effects if isinstance(e, ev.StartContainer)]
    assert start.cpus == parse_list("2-3")
    assert host.state.pods["p"].phase is Phase.PENDING
    host.started("p", "c")
    assert host.state.pods["p"].phase is Phase.RUNNING


def test_a_refused_pod_stays_visible_with_the_kubelets_reason_and_words():
    host = Host()
    effects = host.submit("p", box(cpu="20"), request=7)
    assert kinds(effects) == ["Save", "Answer", "Publish", "Explain"]
    answer = effects[1]
    assert not answer.accepted
    known = host.state.pods["p"]
    assert (known.phase, known.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
    assert known.message.startswith("Pod was rejected: Allocate failed due to not enough cpus")


def test_the_node_fit_check_comes_after_the_managers_and_frees_what_they_gave():
    host = Host()
    for name in ("a", "b"):
        host.submit(name, box(cpu="2500m"))
    host.submit("big", box(cpu="2"))
    known = host.state.pods["big"]
    assert known.reason == "OutOfcpu"
    assert "requested: 2000, used: 5000, capacity: 6000" in known.message
    assert host.state.host.cpu.shared == host.setup.host.cpu.topology.all


def test_init_containers_run_one_after_the_other_and_a_sidecar_stays():
    host = Host()
    effects = host.submit(
        "p", box("app"), inits=[box("one"), box("side", restart="Always"), box("two")]
    )
    assert starts(effects) == ["one"]
    assert starts(host.started("p", "one")) == []
    assert starts(host.exited("p", "one")) == ["side"]
    assert starts(host.started("p", "side")) == ["two"]
    host.started("p", "two")
    assert starts(host.exited("p", "two")) == ["app"]
    assert host.status("p", "side").state is RunState.RUNNING


def test_a_container_that_fails_waits_longer_each_time():
    host = Host()
    host.submit("p", box())
    for delay in (10.0, 20.0, 40.0):
        host.started("p", "c")
        host.exited("p", "c", 1)
        status = host.status("p", "c")
        assert status.reason == "CrashLoopBackOff"
        assert status.retry_at == host.now + delay
        host.now += delay - 1
        assert starts(host.event(ev.Tick(host.now))) == []
        host.now += 1
        assert starts(host.event(ev.Tick(host.now))) == ["c"]
    host.started("p", "c")
    host.now += 700
    host.exited("p", "c", 1)
    assert host.status("p", "c").retry_at == host.now + 10.0, "a long run forgives"


def test_a_pod_that_never_restarts_ends_with_the_worst_code_and_frees_its_cpus():
    host = Host()
    host.submit("p", box("a", cpu="2"), box("b"), policy="Never")
    host.started("p", "a")
    host.started("p", "b")
    host.exited("p", "a", 0)
    host.exited("p", "b", 3)
    assert host.state.pods["p"].phase is Phase.FAILED
    assert host.state.host.cpu.shared == host.setup.host.cpu.topology.all


def test_sidecars_are_stopped_when_the_app_containers_are_done():
    host = Host()
    host.submit("p", box("app"), inits=[box("side", restart="Always")], policy="Never")
    host.started("p", "side")
    host.started("p", "app")
    effects = host.exited("p", "app", 0)
    assert [e.container for e in effects if isinstance(e, ev.StopContainer)] == ["side"]
    host.exited("p", "side", 143)
    assert host.state.pods["p"].phase is Phase.SUCCEEDED


def test_a_failing_init_container_fails_a_pod_that_never_restarts():
    host = Host()
    host.submit("p", box("app"), inits=[box("one")], policy="Never")
    host.started("p", "one")
    host.exited("p", "one", 1)
    assert host.state.pods["p"].phase is Phase.FAILED


def test_the_shared_pool_moves_before_an_exclusive_container_starts():
    host = Host()
    host.submit("shared", box())
    host.started("shared", "c")
    effects = host.submit("own", box(cpu="2"))
    names = kinds(effects)
    assert names.index("PinContainers") < names.index("StartContainer")
    [pin] = next(e.pins for e in effects if isinstance(e, ev.PinContainers))
    assert pin.cpus == parse_list("0-1,4-7")
    host.started("own", "c")
    host.event(ev.PodDeleted("own", host.now))
    effects = host.exited("own", "c", 143)
    [pin] = next(e.pins for e in effects if isinstance(e, ev.PinContainers))
    assert pin.cpus == parse_list("0-7")


def test_a_deleted_pod_is_gone_only_when_its_processes_are():
    host = Host()
    host.submit("p", box())
    host.started("p", "c")
    effects = host.event(ev.PodDeleted("p", host.now, 5))
    assert any(isinstance(e, ev.Answer) and e.accepted for e in effects)
    assert any(isinstance(e, ev.StopContainer) for e in effects)
    assert "p" in host.state.pods
    effects = host.exited("p", "c", 143)
    assert "p" not in host.state.pods
    assert any(isinstance(e, ev.ForgetPod) for e in effects)


def with_devices(host, *, preferred=False):
    devices = tuple(Device(f"g{n}", (0,)) for n in range(3))
    return host.event(
        ev.DevicesReported("example.com/gpu", devices, host.now, has_preferred=preferred)
    )


def test_a_pod_with_devices_starts_when_its_plugin_has_prepared_them():
    host = Host()
    with_devices(host)
    effects = host.submit("p", box(gpu="2"))
    [wanted] = [e for e in effects if isinstance(e, ev.AllocateDevices)]
    assert wanted.ids == ("g0", "g1")
    assert starts(effects) == []
    answer = Allocation({"GPU": "yes"}, response=b"x")
    effects = host.event(ev.DevicesAllocated("p", "c", "example.com/gpu", answer, host.now))
    assert starts(effects) == ["c"]
    assert host.state.host.devices.entries["p"]["c"]["example.com/gpu"].response == b"x"


def test_a_plugin_that_refuses_fails_the_pod_in_the_kubelets_words_and_frees_the_devices():
    host = Host()
    with_devices(host)
    host.submit("p", box(gpu="2"))
    host.event(ev.DevicesRefused("p", "c", "example.com/gpu", "rpc error: no", host.now))
    known = host.state.pods["p"]
    assert known.reason == "UnexpectedAdmissionError"
    assert known.message.endswith("Allocate failed due to rpc error: no, which is unexpected")
    assert not host.state.host.devices.in_use["example.com/gpu"]


def test_a_plugin_with_preferences_is_asked_before_the_decision():
    host = Host()
    with_devices(host, preferred=True)
    [ask] = host.submit("p", box(gpu="1"))
    assert ask.preference.offered == ("g0", "g1", "g2")
    assert "p" not in host.state.pods
    answered = ev.PodSubmitted(
        "p", ask.event.record, "api", host.now, None, {ask.preference: ("g2",)}
    )
    effects = host.event(answered)
    [wanted] = [e for e in effects if isinstance(e, ev.AllocateDevices)]
    assert wanted.ids == ("g2",)


def restarted(host, alive=(), ended=None):
    saved = host.state
    host.state, effects = recovered(
        host.setup,
        cpu=saved.host.cpu,
        memory=saved.host.memory,
        saved_devices=saved.host.devices.saved,
        pods=saved.pods,
        alive=dict.fromkeys(alive, 100),
        ended=ended or {},
        now=host.now,
    )
    return effects


def test_a_crash_before_the_plugin_answered_has_it_asked_again_when_it_is_back():
    host = Host()
    with_devices(host)
    host.submit("p", box(cpu="2", gpu="1"))
    effects = restarted(host)
    assert starts(effects) == []
    assert host.state.pods["p"].reason == "WaitingForDevicePlugin"
    host.event(ev.SourcesReady(host.now))
    assert host.state.host.cpu.entries == {}
    effects = with_devices(host)
    [wanted] = [e for e in effects if isinstance(e, ev.AllocateDevices)]
    answer = Allocation({"GPU": "g0"}, response=b"x")
    where = ("p", "c", "example.com/gpu")
    assert starts(host.event(ev.DevicesAllocated(*where, answer, host.now))) == ["c"]
    assert host.state.pods["p"].allocations["c", "example.com/gpu"] is answer
    assert wanted.ids == ("g0",)


def test_what_only_a_container_runtime_can_give_is_told_once_where_there_is_none():
    for runs_processes, told in ((True, 1), (False, 0)):
        host = Host()
        host.setup = replace(host.setup, runs_processes=runs_processes)
        with_devices(host)
        host.submit("p", box(gpu="1"))
        answer = Allocation(
            {"GPU": "g0"}, devices=(DeviceNode("/dev/g0", "/dev/g0"),), cdi_names=("v.com/gpu=g0",)
        )
        event = ev.DevicesAllocated("p", "c", "example.com/gpu", answer, host.now)
        effects = host.event(event) + host.event(event)
        notes = [
            e.note
            for e in effects
            if isinstance(e, ev.Publish) and isinstance(e.note, DevicesNotGiven)
        ]
        assert len(notes) == told
        for note in notes:
            assert note.not_given == "device files /dev/g0, CDI devices v.com/gpu=g0"


def test_after_a_restart_a_new_pod_waits_for_a_plugin_that_was_there_before():
    host = Host()
    with_devices(host)
    restarted(host)
    effects = host.submit("p", box(gpu="1"))
    assert host.state.pods["p"].reason == "WaitingForDevicePlugin"
    assert starts(effects) == []
    effects = with_devices(host)
    assert any(isinstance(e, ev.AllocateDevices) for e in effects)


def test_a_pod_that_has_devices_by_the_state_of_a_kubelet_keeps_all_while_it_waits_for_the_plugin():
    host = Host()
    with_devices(host)
    host.submit("first", box(cpu="2", gpu="1"))
    host.submit("p", box(cpu="2", gpu="1"))
    for uid, device in (("first", "g0"), ("p", "g1")):
        answer = Allocation({"GPU": device}, response=b"x")
        host.event(ev.DevicesAllocated(uid, "c", "example.com/gpu", answer, host.now))
    before = host.state.host.cpu.entries["p"]
    host.state = replace(host.state, pods={})  # a kubelet leaves no file of pods
    for _ in range(2):  # and a crash while it waits changes nothing
        restarted(host)
        host.submit("p", box(cpu="2", gpu="1"))
        host.event(ev.SourcesReady(host.now))
        assert host.state.pods["p"].reason == "WaitingForDevicePlugin"
        assert host.state.host.cpu.entries == {"p": before}
    effects = with_devices(host)
    [wanted] = [e for e in effects if isinstance(e, ev.AllocateDevices)]
    assert (wanted.uid, wanted.ids) == ("p", ("g1",))
    assert host.state.host.cpu.entries == {"p": before}


def test_a_pod_does_not_wait_for_ever_for_a_plugin():
    host = Host()
    with_devices(host)
    restarted(host)
    host.submit("p", box(gpu="1"))
    host.now += host.setup.plugin_grace_seconds
    host.event(ev.Tick(host.now))
    assert host.state.pods["p"].reason == "UnexpectedAdmissionError"
    assert "no healthy devices present" in host.state.pods["p"].message


def test_processes_that_outlived_the_agent_are_taken_up_where_they_are():
    host = Host()
    host.submit("p", box(cpu="2"))
    host.started("p", "c")
    before = host.state.host.cpu
    effects = restarted(host, alive=[("p", "c")])
    assert host.state.host.cpu == before
    assert host.status("p", "c").state is RunState.RUNNING
    assert starts(effects) == []


def test_a_process_that_nobody_knows_is_ended():
    host = Host()
    effects = restarted(host, alive=[("stranger", "c")])
    assert [e.uid for e in effects if isinstance(e, ev.StopContainer)] == ["stranger"]


def test_an_exit_code_that_was_recorded_meanwhile_counts():
    host = Host()
    host.submit("p", box(), policy="OnFailure")
    host.started("p", "c")
    restarted(host, ended={("p", "c"): Ended(0, 0)})
    assert host.state.pods["p"].phase is Phase.SUCCEEDED


def test_a_run_that_never_began_is_no_failure_and_only_uses_its_number_up():
    host = Host()
    host.submit("p", box(), policy="Never")
    effects = restarted(host, ended={("p", "c"): Ended(0, 255, "never started", has_run=False)})
    [start] = [e for e in effects if isinstance(e, ev.StartContainer)]
    assert start.attempt == 1
    assert host.state.pods["p"].phase is Phase.PENDING


def test_a_container_whose_start_was_only_noted_is_started_again_and_not_called_failed():
    host = Host()
    host.submit("p", box(), policy="Never")
    assert host.status("p", "c").state is RunState.STARTING
    effects = restarted(host)
    assert starts(effects) == ["c"]
    assert host.state.pods["p"].phase is Phase.PENDING


def test_a_broken_conservation_law_is_never_saved_and_stops_all_deciding():
    host = Host()
    host.submit("p", box(cpu="2"), request=1)
    cpu = host.state.host.cpu
    broken = replace(cpu, shared=cpu.shared | cpu.entries["p"]["c"])
    host.state = replace(host.state, host=replace(host.state.host, cpu=broken))
    effects = host.submit("q", box(), request=2)
    assert kinds(effects) == ["Answer", "Publish"]
    assert (effects[0].accepted, effects[0].reason) == (False, "AgentHalted")
    assert "CPUs 2-3 belong to the shared pool and to pod p" in host.state.halted
    assert host.state.pods.keys() == {"p"}
    [answer] = host.submit("r", box(), request=3)
    assert answer.reason == "AgentHalted"
    assert host.exited("p", "c") == []


def test_events_decided_together_are_saved_once_and_start_where_the_pool_is_in_the_end():
    host = Host()

    def submitted(uid, **amounts):
        spec = PodSpec(containers=[box(**amounts)])
        record = PodRecord(metadata=Metadata(name=uid), spec=spec)
        return ev.PodSubmitted(uid, record, "api", host.now, None)

    host.state, effects = step(
        host.setup, host.state, submitted("shared"), submitted("own", cpu="2")
    )
    assert kinds(effects).count("Save") == 1 and kinds(effects)[0] == "Save"
    first, second = (e for e in effects if isinstance(e, ev.StartContainer))
    assert first.cpus == host.state.host.cpu.shared == parse_list("0-1,4-7")
    assert second.cpus == parse_list("2-3")
