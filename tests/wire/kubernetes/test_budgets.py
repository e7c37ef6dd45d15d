import pytest

from numalign.core.errors import WireError
from numalign.wire.kubernetes.budgets import budget_from_json


@pytest.mark.parametrize("data", [b"[]", b'{"metadata":{"name":"\xff"}}', b"[" * 100_000])
def test_bytes_that_are_no_budget_are_refused(data):
    with pytest.raises(WireError, match="found no PodDisruptionBudget"):
        budget_from_json(data)
