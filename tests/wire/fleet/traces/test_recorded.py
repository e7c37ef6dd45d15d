import pytest

from numalign.core.errors import WireError
from numalign.wire.fleet.traces import dlrm, openb, recorded

HEAD = "name,at,cpu,memory"


def test_pods_come_in_the_order_of_their_arrival():
    found = recorded.pods("f", f"{HEAD},seconds,owner\nb,5,4,8Gi,60,web\na,0,2,1Gi,,\n")
    assert [(pod.name, pod.at, pod.seconds, pod.owner) for pod in found] == [
        ("a", 0.0, None, "a"),
        ("b", 5.0, 60.0, "web"),
    ]


@pytest.mark.parametrize("text", [f"{HEAD}\na,0,\r2,1Gi\n", f"na\rme\n{HEAD}\n"])
@pytest.mark.parametrize("read", [recorded.pods, openb.host_shapes, dlrm.pods])
def test_what_is_no_csv_is_told_with_its_line(read, text):
    head, _, rest = text.partition("\n")
    columns = {openb.host_shapes: openb._HOST_COLUMNS, dlrm.pods: dlrm._COLUMNS}.get(read)
    text = text if columns is None or head != HEAD else f"{','.join(columns)}\n{rest}"
    with pytest.raises(WireError, match=r"^f: line \d+: found what is no CSV"):
        read("f", text)


def test_a_field_without_an_end_is_told():
    with pytest.raises(WireError, match=r"^f: line 2: found what is no CSV \(field larger"):
        recorded.pods("f", f'{HEAD}\n"{"x" * 200_000}')
