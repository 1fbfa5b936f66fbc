"""Drawing for widgets: one style, fast redraws, pictures that say what they show.

A widget's picture is built once. What moves is registered as *movable*; the rest is
drawn once and kept as a bitmap. A redraw restores the bitmap and paints the movable
artists on top, which is several times cheaper than drawing the axes again. Only a
change of an axis limit or of a fixed label draws everything afresh.

    canvas = Canvas(660, 320)
    axes = canvas.axes((0.1, 0.15, 0.85, 0.8))
    line, = axes.plot([], [])
    canvas.movable(line)
    ...
    line.set_data(x, y)
    html = image_html(canvas.png(), alt="Time falls as 1/N ...", width=660)

Sizes are CSS pixels; the bitmap has `SCALE` times as many on each side. The figure
is opaque white; on a dark page `THEME_CSS` inverts lightness and keeps hues, so that
contrast stays what it was. No pyplot: figures here leave no global state behind.
"""

from __future__ import annotations

import base64
import binascii
import html
import io
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

SCALE = 2
_CSS_PIXELS_PER_INCH = 100

# Okabe and Ito's colours tell apart under every common colour blindness; the two
# lightest are left out because they fail as lines on white.
INK, MUTED, GRID = "#1a1a1a", "#595959", "#d9d9d9"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#00785a", "#a8477f"
PALE_BLUE, PALE_ORANGE, PALE_GREY = "#cfe3f1", "#f7dcc8", "#ececec"
COLOURS = (INK, MUTED, GRID, BLUE, ORANGE, GREEN, PURPLE, PALE_BLUE, PALE_ORANGE, PALE_GREY)

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 8.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED,
    "xtick.color": INK, "ytick.color": INK, "axes.titlesize": 9.0, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.linewidth": 0.8, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": GRID, "grid.linewidth": 0.6, "xtick.minor.visible": False,
    "ytick.minor.visible": False, "xtick.labelsize": 8.0, "ytick.labelsize": 8.0,
    "lines.linewidth": 2.0, "figure.facecolor": "white", "axes.facecolor": "white",
    "legend.frameon": False, "text.usetex": False,
    # At two device pixels to one, hinting costs time and shows nothing.
    "text.parse_math": False, "text.hinting": "none", "axes.unicode_minus": True,
}

THEME_CSS = (
    "<style>.ironlaw-figure{background:#fff;border-radius:4px}"
    'body[data-jp-theme-light="false"] .ironlaw-figure'
    "{filter:invert(1) hue-rotate(180deg)}</style>"
)

# The notebook server sends a small message late when another one is on its way
# (Nagle's algorithm); one of more than 64 KiB leaves at once. Base64 makes 4 of 3.
_LEAST_PNG_BYTES = 66_000 * 3 // 4


@contextmanager
def styled() -> Iterator[None]:
    """Build or draw under the course's style, whatever the reader's matplotlibrc says."""
    import matplotlib

    settings: Any = STYLE
    with matplotlib.rc_context(settings):
        yield


class Canvas:
    """A figure of `width` x `height` CSS pixels with a cached background.

    `artists` is free for the widget: its `make` puts there, by name, what its
    `update` moves. `full_draws` counts the expensive redraws.
    """

    def __init__(self, width: int, height: int) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        with styled():
            self.figure = Figure(
                figsize=(width / _CSS_PIXELS_PER_INCH, height / _CSS_PIXELS_PER_INCH),
                dpi=_CSS_PIXELS_PER_INCH * SCALE,
            )
            self._agg = FigureCanvasAgg(self.figure)
        self.artists: dict[str, Any] = {}
        self.full_draws = 0
        self._movable: list[Any] = []
        self._background: Any = None

    def axes(self, box: tuple[float, float, float, float], **settings: Any) -> Any:
        """Axes at `box` = (left, bottom, width, height) in fractions of the figure."""
        with styled():
            return self.figure.add_axes(box, **settings)

    def movable(self, *artists: Any) -> None:
        """Register artists that a redraw paints again; all others are background."""
        for artist in artists:
            artist.set_animated(True)
            self._movable.append(artist)

    def limits(
        self, axes: Any, *, x: tuple[float, float] | None = None,
        y: tuple[float, float] | None = None,
    ) -> bool:
        """Set axis limits; only a real change makes the background stale. True if it did."""
        changed = False
        if x is not None and tuple(axes.get_xlim()) != x:
            axes.set_xlim(*x)
            changed = True
        if y is not None and tuple(axes.get_ylim()) != y:
            axes.set_ylim(*y)
            changed = True
        if changed:
            self.stale()
        return changed

    def stale(self) -> None:
        """Something in the background changed: the next `png` draws everything."""
        self._background = None

    def rgba(self) -> Any:
        """The picture as an array of shape (height, width, 4) in device pixels, uint8."""
        import numpy as np

        with styled():
            if self._background is None:
                self._agg.draw()
                self._background = self._agg.copy_from_bbox(self.figure.bbox)
                self.full_draws += 1
            else:
                self._agg.restore_region(self._background)
            for artist in sorted(self._movable, key=lambda a: a.get_zorder()):
                self.figure.draw_artist(artist)
        return np.asarray(self._agg.buffer_rgba())

    def png(self, *, pad: bool = True) -> bytes:
        """The picture as an indexed PNG; `pad` brings it past the small-message delay."""
        return encode_png(self.rgba(), pad=pad)


def encode_png(rgba: Any, *, pad: bool = False) -> bytes:
    """An RGBA array as a PNG in the course's colours and their blends with white and ink."""
    from PIL import Image

    image = Image.fromarray(rgba).convert("RGB")
    indexed = image.quantize(palette=_palette(), dither=Image.Dither.NONE)
    sink = io.BytesIO()
    indexed.save(sink, "PNG", compress_level=1)
    return _padded(sink.getvalue()) if pad else sink.getvalue()


@cache
def _palette() -> Any:
    """At most 256 colours: antialiased edges are blends of two colours of the style."""
    from PIL import Image

    def blend(a: str, b: str, share: float) -> tuple[int, ...]:
        return tuple(
            round((1 - share) * int(a[i : i + 2], 16) + share * int(b[i : i + 2], 16))
            for i in (1, 3, 5)
        )

    colours = [blend(INK, "#ffffff", step / 27) for step in range(28)]
    for colour in COLOURS[1:]:
        colours += [blend(colour, "#ffffff", step / 14) for step in range(14)]
        colours += [blend(colour, INK, step / 11) for step in range(1, 11)]
    # Pillow rounds before it compares: a near-white in the list would take white's place.
    unique = [c for c in dict.fromkeys(colours) if min(c) < 244 or c == (255, 255, 255)]
    flat = [channel for colour in unique for channel in colour]
    image = Image.new("P", (1, 1))
    image.putpalette(flat + flat[:3] * (256 - len(unique)))
    return image


def _padded(png: bytes) -> bytes:
    """`png` with a private chunk of zeros before its end; every decoder skips it."""
    missing = _LEAST_PNG_BYTES - len(png) - 12
    if missing <= 0:
        return png
    name, body = b"ilPd", bytes(missing)
    chunk = struct.pack(">I", missing) + name + body
    chunk += struct.pack(">I", binascii.crc32(name + body))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


def image_html(png: bytes, alt: str, width: int) -> str:
    """An `<img>` of at most `width` CSS pixels with `alt` text, as an HTML string."""
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<img class="ironlaw-figure" alt="{html.escape(alt, quote=True)}" '
        f'style="width:{width}px;max-width:100%;height:auto;display:block" '
        f'src="data:image/png;base64,{data}">'
    )


class Still:
    """A finished picture with its alternative text and a caption in words.

    Displays itself in a notebook; `png` is the picture's bytes for a file.
    """

    def __init__(self, canvas: Canvas, alt: str, caption: str) -> None:
        self.png = canvas.png(pad=False)
        self.alt = alt
        self.caption = caption
        self.width = canvas.width

    def _repr_html_(self) -> str:
        return (
            f'{THEME_CSS}<figure style="margin:0.5em 0;max-width:{self.width}px">'
            f"{image_html(self.png, self.alt, self.width)}"
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )

    def __repr__(self) -> str:
        return f"{self.alt}\n\n{self.caption}"


def wrapped(text: str, columns: int) -> str:
    """`text` broken into lines of at most `columns` characters, for labels in a figure."""
    import textwrap

    return "\n".join(textwrap.wrap(text, columns))


def human_time_ticks(low: float, high: float) -> tuple[Sequence[float], Sequence[str]]:
    """Tick positions in seconds between `low` and `high`, at times that people name."""
    from ..units import DAY, HOUR, MINUTE, YEAR

    named = [(1e-3, "1 ms"), (1.0, "1 s"), (MINUTE, "1 min"), (HOUR, "1 hour"), (DAY, "1 day"),
             (30 * DAY, "30 days"), (YEAR, "1 year"), (10 * YEAR, "10 years"),
             (100 * YEAR, "100 years")]
    named += [(10.0**k * YEAR, f"{10**k:,} years") for k in range(3, 6)]
    named += [(10.0**k * YEAR, f"1e{k} years") for k in range(6, 19)]
    inside = [(seconds, label) for seconds, label in named if low <= seconds <= high]
    return [s for s, _ in inside], [label for _, label in inside]
