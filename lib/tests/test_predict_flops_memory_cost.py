"""FLOP counts, persistent state, money and carbon: exact anchors and laws."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import cost, flops, memory
from ironlaw.transformer import MODELS, Shape

SIZES = st.integers(1, 4096)


@pytest.mark.parametrize(("name", "gigaflop"), [
    ("gpt2-124m", 0.8547), ("gpt2-350m", 2.423), ("gpt2-774m", 5.199), ("gpt2-1558m", 10.274)])
def test_flops_per_token_of_the_gpt2_family(name: str, gigaflop: float) -> None:
    shape = MODELS[name].resized(vocab=50_304)
    assert flops.per_token(shape, 1024) / 1e9 == pytest.approx(gigaflop, rel=2e-4)


@given(st.integers(1, 48), st.integers(1, 32), st.integers(1, 16), SIZES)
def test_per_token_is_its_closed_form(layers: int, heads: int, head_width: int, seq: int) -> None:
    d, vocab = heads * head_width, 500
    shape = Shape("any", layers, d, heads, seq, vocab)
    closed = 6 * (12 * layers * d**2 + vocab * d) + 12 * layers * d * seq
    assert flops.per_token(shape, seq) == pytest.approx(closed)
    assert flops.per_step(shape, 3, seq) == pytest.approx(3 * seq * closed)


@given(SIZES, SIZES, SIZES)
def test_only_attention_products_grow_with_the_square_of_the_sequence(b: int, s: int,
                                                                      d: int) -> None:
    one, two = flops.layer_forward(b, s, d), flops.layer_forward(b, 2 * s, d)
    assert two.scores == 4 * one.scores
    assert two.feed_forward == 2 * one.feed_forward
    assert one.total == pytest.approx(24.0 * b * s * d * d + 4.0 * b * s * s * d)


def test_the_flop_counter_agrees_on_meta() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    b, s, d, h = 2, 64, 48, 3
    with torch.device("meta"):
        x = torch.empty(b, s, d)
        q = torch.empty(b, h, s, d // h)
        layers = [torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d), torch.nn.Linear(d, 4 * d)]
        back = torch.nn.Linear(4 * d, d)
        with FlopCounterMode(display=False) as counter:
            for layer in layers:
                y = layer(x)
            back(y)
            torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert counter.get_total_flops() == flops.layer_forward(b, s, d).total


def test_the_documents_recipe_is_sixteen_bytes() -> None:
    state = memory.training_state(7e9)
    assert (state.weights, state.gradients, state.master, state.moments) == (
        14e9, 14e9, 28e9, 56e9)
    assert memory.training_over_inference() == 8.0


@given(st.floats(1, 1e13), st.floats(0.5, 8), st.integers(0, 4))
def test_state_is_the_sum_of_its_parts_and_linear(parameters: float, width: float,
                                                  moments: int) -> None:
    one = memory.training_state_bytes(parameters, width, width, 4, 4, moments)
    assert one == pytest.approx(parameters * (2 * width + 4 + 4 * moments))
    assert memory.training_state_bytes(2 * parameters, width, width, 4, 4, moments) == (
        pytest.approx(2 * one))


def test_optimizer_state_is_a_sum_and_not_a_maximum() -> None:
    assert memory.moment_bytes(1e9, 4, 2) == 8e9


@given(st.integers(1, 10_000), st.floats(1, 1e8), st.floats(0, 100))
def test_rent_scales_with_machines_and_time(n: int, seconds: float, price: float) -> None:
    assert cost.rent(2 * n, seconds, price) == pytest.approx(2 * cost.rent(n, seconds, price))
    assert cost.rent(n, 3 * seconds, price) == pytest.approx(3 * cost.rent(n, seconds, price))


def test_table_19_energy_and_carbon() -> None:
    joules = cost.energy_joules(32, 300, 14 * 86_400, hosts=4, host_watts=200, pue=1.12)
    assert joules / 3.6e6 == pytest.approx(3913.728)
    assert cost.electricity_cost(joules, 0.10) == pytest.approx(391.3728)
    assert cost.carbon_kg(joules, 0.43) / 1000 == pytest.approx(1.6829, abs=1e-4)


def test_a_building_cannot_use_less_than_its_machines() -> None:
    with pytest.raises(InputError) as caught:
        cost.energy_joules(1, 300, 10, pue=0.9)
    assert caught.value.argument == "pue"


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "2", None])
def test_bad_prices_are_refused(bad: object) -> None:
    with pytest.raises(InputError) as caught:
        cost.rent(1, 10, bad)  # type: ignore[arg-type]  # on purpose
    assert caught.value.argument == "price_per_hour"
