"""Groups of groupshift's own that commit to every partition of the offsets topic."""

from __future__ import annotations

import pytest

from groupshift.adapters.kafka.cluster_changes import PREFIX, names
from groupshift.domain.placement import partition_of


@pytest.mark.parametrize("partitions", [1, 7, 31, 50, 62, 93, 961])
def test_every_partition_gets_a_group_also_where_31_divides_the_count(partitions: int) -> None:
    """Java's hash multiplies by 31: of such a count only the last character of a name decides."""
    found = names(partitions)
    assert sorted(found) == list(range(partitions))
    assert all(partition_of(name, partitions) == number for number, name in found.items())
    assert all(name.startswith(PREFIX) for name in found.values())
