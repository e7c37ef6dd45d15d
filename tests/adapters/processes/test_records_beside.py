"""What is forgotten of one run leaves alone what is being made for another one."""

from numalign.adapters.processes.runtime import ProcessRuntime


def test_a_directory_that_has_no_record_yet_stays_while_another_pod_is_forgotten(tmp_path):
    runtime = ProcessRuntime(tmp_path, None)
    being_made = runtime._runs / "uid-of-another" / "run.0"
    being_made.mkdir(parents=True)
    runtime.remove("uid", "run")
    assert runtime.containers_of("uid") == []
    assert runtime.uids() == set()
    assert being_made.is_dir()
