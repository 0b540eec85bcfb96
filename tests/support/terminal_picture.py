"""A terminal as a picture: rows of text with their colours, as SVG, and the same text for those who cannot see it."""

from __future__ import annotations

import re
from html import escape

#: Pixels of a row, of a letter, and around the text.
_ROW, _LETTER, _EDGE, _TOP = 17, 7.23, 20, 48
_COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#d29922", "36": "#79c0ff"}
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\r")


def drawn(title: str, rows: list[str]) -> str:
    """Return the picture of rows with their sequences for colours."""
    rows = [_OTHER.sub("", row).rstrip() for row in rows]
    plain = [_SEQUENCE.sub("", row) for row in rows]
    wide = round(2 * _EDGE + _LETTER * max(map(len, plain)))
    high = _TOP + _ROW * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        'role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape(chr(10).join(plain))}</desc>',
        # Browsers no longer mind xml:space on a group.
        "<style>text { white-space: pre }</style>",
        f'<rect width="{wide}" height="{high}" rx="8" fill="#0d1117"/>',
        *(f'<circle cx="{20 + 18 * n}" cy="18" r="5.5" fill="{c}"/>' for n, c in enumerate(_BUTTONS)),
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" "
        'font-size="12" fill="#c9d1d9" xml:space="preserve">',
    ]
    for number, (row, text) in enumerate(zip(rows, plain, strict=True)):
        if text:
            size = f'textLength="{_LETTER * len(text):.1f}" lengthAdjust="spacingAndGlyphs"'
            lines.append(f'<text x="{_EDGE}" y="{_TOP + _ROW * number}" {size}>{_coloured(row)}</text>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


_BUTTONS = ("#ff5f56", "#ffbd2e", "#27c93f")


def _coloured(row: str) -> str:
    """Return a row in which each part with a colour is one element."""
    first, *rest = _SEQUENCE.split(row)
    parts, colour, bold = [escape(first)], "", False
    for codes, text in zip(rest[::2], rest[1::2], strict=True):
        for code in codes.split(";"):
            colour = _COLOURS.get(code, "") if code not in ("1", "") else colour
            bold = code == "1" or (bold and code not in ("0", ""))
            if code in ("0", ""):
                colour = ""
        style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
        if text:
            parts.append(f"<tspan{style}>{escape(text)}</tspan>" if style else escape(text))
    return "".join(parts)
