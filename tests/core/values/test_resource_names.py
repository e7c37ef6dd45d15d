"""Which names a device plugin may use."""

from __future__ import annotations

import pytest

from numalign.core.values.resource_names import is_extended


@pytest.mark.parametrize(
    "name",
    ["vendor.com/gpu", "a/b", "nvidia.com/mig-1g.5gb", "a-b.c/X_y.z", "x/" + "n" * 63,
     "v" * 244 + "/gpu"],
)  # fmt: skip
def test_an_extended_resource_is_qualified_by_a_domain(name):
    assert is_extended(name)


@pytest.mark.parametrize(
    "name",
    ["", "gpu", "/gpu", "a/", "a/b/c", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.a/b",
     "Vendor.com/gpu", "a/-b", "a/b-", "a/b c", "a..b/c", "x/" + "n" * 64, "v" * 245 + "/gpu",
     "a/b\n", "a\n/b"],
)  # fmt: skip
def test_other_names_are_none(name):
    assert not is_extended(name)
