"""Breakages of the NRI plugin: what breaks, where, old text, new text, who must notice."""

NRI = "src/numalign/apps/nri"
STEP = "tests/apps/nri/test_step.py"
SYNCHRONIZING = "tests/apps/nri/test_synchronizing.py"
COPIES = "tests/adapters/nri/test_two_copies.py"
WIRE = "tests/wire/nri/test_mux_and_ttrpc.py"

MUTATIONS = [
    (
        "a container is answered before it is saved",
        f"{NRI}/steps/creating.py",
        "return after, [*saves(state, after), *effects]",
        "return after, [*effects, *saves(state, after)]",
        STEP,
    ),
    (
        "what is held is not saved",
        f"{NRI}/steps/creating.py",
        "return [] if same else [Save(after)]",
        "return []",
        SYNCHRONIZING,
    ),
    (
        "the pool is not moved with the answer",
        f"{NRI}/steps/placing.py",
        "if id_ != without and cpus and one.cpus != cpus:",
        "if False:",
        STEP,
    ),
    (
        "a refused container frees what its pod holds",
        f"{NRI}/steps/creating.py",
        "return state, [AnswerRefused(error.reason, text), noted]",
        "return replace(state, host=hosts.cleaned(state.policy.host, hosts.ended(state.host, "
        "pod.uid))), [AnswerRefused(error.reason, text), noted]",
        STEP,
    ),
    (
        "the shared pool may run empty",
        f"{NRI}/steps/creating.py",
        "if host.cpu is None or state.cpu.shared:",
        "if True:",
        STEP,
    ),
    (
        "containers are placed before the runtime has told what runs",
        f"{NRI}/steps/creating.py",
        "if not state.is_synchronized:\n        raise RefusedError(NOT_SYNCHRONIZED",
        "if False:\n        raise RefusedError(NOT_SYNCHRONIZED",
        STEP,
    ),
    (
        "CPUs come back when a container stops",
        f"{NRI}/step.py",
        "state, updates = with_updates(forget(state, container.id))",
        "state = holdings.release(state, state.containers[container.id].key[0], "
        "is_remembered=False)\n            state, updates = with_updates(forget(state, container.id))",
        STEP,
    ),
    (
        "a list of containers is believed",
        f"{NRI}/steps/pods.py",
        "if count and (actual is None or actual.milli() != count * 1000):",
        "if False:",
        STEP,
    ),
    (
        "updates are sent to runtimes that lock up",
        f"{NRI}/step.py",
        "SENDS_SAFELY: Final = (0, 12, 1)",
        "SENDS_SAFELY: Final = (0, 12, 0)",
        STEP,
    ),
    (
        "what a container shows is adopted though another has it",
        f"{NRI}/steps/holdings.py",
        "if policy is None or not cpus or cpus & ~(state.cpu.shared & ~policy.reserved):",
        "if policy is None or not cpus:",
        SYNCHRONIZING,
    ),
    (
        "nothing is adopted without the state file",
        f"{NRI}/steps/synchronizing.py",
        "and count and cpus.bit_count() == count:",
        "and False:",
        SYNCHRONIZING,
    ),
    (
        "a pod that went while we were away keeps its CPUs",
        f"{NRI}/steps/synchronizing.py",
        "cleaned = hosts.cleaned(state.policy.host, host)",
        "cleaned = host",
        SYNCHRONIZING,
    ),
    (
        "a damaged state file is believed",
        f"{NRI}/saved.py",
        "if computed != found.checksum:",
        "if False:",
        SYNCHRONIZING,
    ),
    (
        "a save spoils the copy before it",
        "src/numalign/adapters/nri/two_copies.py",
        "number % 2 * room",
        "0",
        COPIES,
    ),
    (
        "a save is answered before it is on the disk",
        "src/numalign/adapters/nri/two_copies.py",
        "os.fdatasync(descriptor)",
        "os.stat(descriptor)",
        COPIES,
    ),
    (
        "the older copy is believed",
        f"{NRI}/saved.py",
        "max(found, key",
        "min(found, key",
        SYNCHRONIZING,
    ),
    (
        "containers are placed beside a kubelet that places itself",
        f"{NRI}/steps/creating.py",
        "if managed is not None:",
        "if False:",
        STEP,
    ),
    (
        "CPUs that cannot be read end the plugin",
        f"{NRI}/steps/synchronizing.py",
        "    except ValueError:\n        return 0",
        "    except KeyError:\n        return 0",
        "tests/apps/nri/test_garbage.py",
    ),
    (
        "what could not be saved has happened",
        f"{NRI}/driver.py",
        "                        return events.AnswerRefused(NOT_SAVED, text)",
        "                        self.state = after",
        "tests/adapters/nri/test_connection.py",
    ),
    (
        "a new host file takes CPUs from running containers",
        f"{NRI}/steps/holdings.py",
        "        if blocking:\n",
        "        if False:\n",
        STEP,
    ),
    (
        "frames are longer than the runtime reads",
        "src/numalign/wire/nri/mux.py",
        "FRAME_BYTES_MAX: Final = 4096",
        "FRAME_BYTES_MAX: Final = 8192",
        WIRE,
    ),
    (
        "a message may have any length",
        "src/numalign/wire/nri/ttrpc.py",
        "if size > BODY_BYTES_MAX:",
        "if False:",
        WIRE,
    ),
    (
        "a flipped bit in the plugin's state is a traceback",
        "src/numalign/apps/nri/saved.py",
        "    except DECODE_FAULTS as error:",
        "    except msgspec.DecodeError as error:",
        "tests/apps/nri/test_damaged_files.py",
    ),
    (
        "a flipped bit in the kubelet's state is a traceback of the plugin",
        "src/numalign/apps/nri/guard.py",
        "    except DECODE_FAULTS as error:",
        "    except msgspec.DecodeError as error:",
        "tests/apps/nri/test_damaged_files.py",
    ),
]
