"""The drawing base: a fast redraw must show exactly what a slow one would."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from ironlaw.widgets import canvas
from ironlaw.widgets.iron_law import picture, state
from PIL import Image


def small() -> canvas.Canvas:
    made = canvas.Canvas(200, 100)
    axes = made.axes((0.2, 0.2, 0.7, 0.7))
    line, = axes.plot([0, 1], [0, 1], color=canvas.BLUE)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    made.artists.update(axes=axes, line=line)
    made.movable(line)
    return made


def test_a_fast_redraw_equals_a_slow_one() -> None:
    made = small()
    made.rgba()
    made.artists["line"].set_ydata([1, 0])
    fast = made.rgba().copy()
    made.stale()
    assert made.full_draws == 1
    slow = made.rgba()
    assert made.full_draws == 2
    assert np.array_equal(fast, slow)


def test_a_redraw_leaves_no_trace_of_the_last_one() -> None:
    made = small()
    first = made.rgba().copy()
    made.artists["line"].set_ydata([1, 0])
    assert not np.array_equal(made.rgba(), first)
    made.artists["line"].set_ydata([0, 1])
    assert np.array_equal(made.rgba(), first)


def test_only_a_real_change_of_limits_draws_everything() -> None:
    made = small()
    made.rgba()
    assert not made.limits(made.artists["axes"], x=(0.0, 1.0), y=(0.0, 1.0))
    made.rgba()
    assert made.full_draws == 1
    assert made.limits(made.artists["axes"], y=(0.0, 2.0))
    made.rgba()
    assert made.full_draws == 2


def test_size_is_css_pixels_times_scale() -> None:
    assert small().rgba().shape == (100 * canvas.SCALE, 200 * canvas.SCALE, 4)


def test_the_png_is_padded_past_64_kib_and_still_decodes() -> None:
    made = small()
    padded, plain = made.png(), made.png(pad=False)
    assert len(base64.b64encode(padded)) > 64 * 1024 > len(plain)
    with Image.open(io.BytesIO(padded)) as a, Image.open(io.BytesIO(plain)) as b:
        a.load()
        assert a.convert("RGB").tobytes() == b.convert("RGB").tobytes()


def test_the_palette_keeps_white_and_stays_close_to_the_drawing() -> None:
    now = state.preset("GPT-3", "V100 32GB SXM", accelerators=512)
    made = picture.make()
    picture.update(made, now, state.compute(now))
    drawn = np.asarray(Image.fromarray(made.rgba()).convert("RGB")).astype(int)
    shown = np.asarray(Image.open(io.BytesIO(made.png())).convert("RGB")).astype(int)
    assert tuple(shown[0, 0]) == (255, 255, 255)
    distance = np.abs(drawn - shown).max(axis=2)
    assert distance.max() <= 48, "an antialiased edge may shift, no area may change colour"
    assert distance.mean() < 1.5


def test_the_readers_own_matplotlib_settings_change_nothing() -> None:
    reference = small().png()
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "text.color": "red"}):
        assert small().png() == reference
    assert matplotlib.rcParams["font.size"] != canvas.STYLE["font.size"]


def test_alt_text_is_escaped() -> None:
    html = canvas.image_html(b"x", 'a "quoted" <tag>', 300)
    assert 'alt="a &quot;quoted&quot; &lt;tag&gt;"' in html
    assert "max-width:100%" in html


def test_a_still_carries_picture_alt_and_caption() -> None:
    still = canvas.Still(small(), "what it shows", "what it means & why")
    html = still._repr_html_()
    assert 'alt="what it shows"' in html
    assert "what it means &amp; why" in html
    data = re.search(r"base64,([^\"]+)", html)
    assert data is not None
    assert base64.b64decode(data[1]) == still.png
    assert "what it shows" in repr(still)


@pytest.mark.parametrize(("low", "high"), [(1, 1e3), (1e4, 1e9), (1e-4, 1e30)])
def test_time_ticks_lie_inside_and_rise(low: float, high: float) -> None:
    positions, names = canvas.human_time_ticks(low, high)
    assert len(positions) == len(names) >= 2
    assert all(low <= p <= high for p in positions)
    assert list(positions) == sorted(positions)


def test_importing_the_package_of_widgets_is_light() -> None:
    code = ("import sys, ironlaw.widgets; "
            "print([m for m in ('matplotlib', 'ipywidgets', 'torch') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_widgets_draw_without_pyplot_and_without_torch() -> None:
    code = ("import sys; from ironlaw.widgets import iron_law, figures, guess; iron_law.panel(); "
            "figures.state_bytes(); "
            "print([m for m in ('matplotlib.pyplot', 'torch') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
