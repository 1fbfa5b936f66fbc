"""Tables 17, 18 and 19: the walk-through's functions give the document's rows."""

from __future__ import annotations

import pytest
from ironlaw import document
from ironlaw.errors import InputError
from ironlaw.predict import walkthrough
from ironlaw.predict.walkthrough import Cluster, Decoder
from ironlaw.units import DAY, GB


def test_the_ladder_is_table_18() -> None:
    fp32, mixed, checkpointed = walkthrough.ladder(Decoder())
    assert fp32.total_bytes / GB == pytest.approx(document.value("nap16.fp32"))
    assert mixed.total_bytes / GB == pytest.approx(document.value("nap16.amp"))
    assert checkpointed.total_bytes / GB == pytest.approx(document.value("nap16.ckpt"))
    assert checkpointed.extra_flops == pytest.approx(1 / 3)
    assert walkthrough.audited_fp32(Decoder()) / GB == pytest.approx(
        document.value("audit.n16.fp32"))


def test_table_19_is_reproduced_from_its_assumptions() -> None:
    table = walkthrough.table_19(Decoder(batch=32), Cluster(), 14 * DAY, 2 / 1.2)
    assert table.baseline_bytes / GB == pytest.approx(document.value("tab19.tot32"))
    assert table.optimised_bytes / GB == pytest.approx(document.value("tab19.totopt"))
    for bill, names in ((table.baseline, ("tab19.e14", "tab19.c14", "tab19.co14")),
                        (table.optimised, ("tab19.e84", "tab19.c84", "tab19.co84"))):
        found = (bill.kwh, bill.electricity, bill.carbon_kg / 1000)
        assert found == pytest.approx(tuple(map(document.value, names)))
    assert table.optimised.days == pytest.approx(8.4)


def test_each_strategy_of_table_17_lowers_its_own_quantity() -> None:
    rows = walkthrough.table_17(Decoder(), (0.03, 0.01, 0.05), effective_batch=512)
    assert [row.after < row.before for row in rows] == [True] * 3
    assert rows[0].before / rows[0].after == pytest.approx(1.8)
    assert rows[2].before / rows[2].after == pytest.approx(512 / 4 * 4)


def test_assumptions_are_checked() -> None:
    with pytest.raises(InputError) as caught:
        walkthrough.ladder(Decoder(), reduction=0.5)
    assert caught.value.argument == "reduction"
    with pytest.raises(InputError) as caught:
        walkthrough.table_19(Decoder(), Cluster(), -1.0, 2.0)
    assert caught.value.argument == "baseline_seconds"
    with pytest.raises(InputError) as caught:
        walkthrough.bill(DAY, Cluster(pue=0.5))
    assert caught.value.argument == "pue"
