"""The style of the persistent record: tokens, one rule a status, scoped under one class so that nothing leaks.

Every value falls back from a JupyterLab variable where one exists. Dark follows the front end's own mark first and
the system's preference only where no front end has spoken.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = "cachelab-record"

_LIGHT = (
    "--cl-page:var(--jp-layout-color0,#fff);--cl-surface:var(--jp-layout-color1,#fff);"
    "--cl-line:var(--jp-border-color2,#dfe3e8);--cl-line2:var(--jp-border-color1,#b9c0ca);"
    "--cl-ink:var(--jp-ui-font-color1,#1a222d);--cl-ink2:#56606d;--cl-edge:#8a94a2;"
    "--cl-C:#4f5a69;--cl-R:#c94f00;--cl-S:#0064b0;--cl-F:#b9609a;--cl-O:#007a5a;--cl-P:#7b8490;--cl-X:#5e4a00;"
    "--cl-Rink:#843300;--cl-onS:#fff;--cl-tint:12%;--cl-hatch:38%;color-scheme:light"
)
_DARK = (
    "--cl-page:var(--jp-layout-color0,#111317);--cl-surface:var(--jp-layout-color1,#17191e);"
    "--cl-line:var(--jp-border-color2,#30353e);--cl-line2:var(--jp-border-color1,#4d5561);"
    "--cl-ink:var(--jp-ui-font-color1,#e4e8ee);--cl-ink2:#a3adba;--cl-edge:#77818f;"
    "--cl-C:#8e99a8;--cl-R:#f0843a;--cl-S:#56b4e9;--cl-F:#f2a9d2;--cl-O:#35b98f;--cl-P:#7d8794;--cl-X:#f3e45a;"
    "--cl-Rink:#ffc9a3;--cl-onS:#06121c;--cl-tint:17%;--cl-hatch:46%;color-scheme:dark"
)
_FIXED = (
    "--cl-raise:color-mix(in srgb,var(--cl-ink) 5%,var(--cl-surface));"
    '--cl-ui:var(--jp-ui-font-family,-apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,"Helvetica Neue",'
    '"Liberation Sans","DejaVu Sans Condensed",Arial,sans-serif);'
    '--cl-code:var(--jp-code-font-family,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace);'
    "--cl-fs0:11px;--cl-fs1:12px;--cl-fs2:13px;--cl-fs3:17px;--cl-row:19px"
)


@cache
def _rules(name: str) -> str:
    """Return the rules of a style file of this folder, without comments and line breaks."""
    text = re.sub(r"/\*.*?\*/", "", (Path(__file__).parent / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    return "".join(line.strip() for line in text.splitlines())


def _scoped(name: str, root: str) -> str:
    return _rules(name).replace("&", root)


def stylesheet() -> str:
    """Return the style sheet of the record, all of it under :data:`ROOT`."""
    root = f".{ROOT}"
    quiet = ":not([data-jp-theme-light]):not(.vscode-light):not(.vscode-high-contrast-light)"
    marks = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast:not(.vscode-high-contrast-light)",
             'html[theme="dark"]')  # fmt: skip
    dark = ",".join(f"{mark} {root}" for mark in marks)
    return (
        f"{root}{{{_LIGHT};{_FIXED}}}"
        f"@media (prefers-color-scheme:dark){{body{quiet} {root}{{{_DARK}}}}}"
        f"{dark}{{{_DARK}}}"
        f"{_scoped('status.css', root)}{_scoped('record.css', root)}{_scoped('picture.css', root)}"
    )


def svg_stylesheet(root: str) -> str:
    """Return the style of a picture that stands alone, under the class ``root``."""
    return (
        f".{root}{{{_LIGHT};{_FIXED}}}@media (prefers-color-scheme:dark){{.{root}{{{_DARK}}}}}"
        f"{_scoped('status.css', f'.{root}')}{_scoped('picture.css', f'.{root}').replace(f'.{root} svg', f'.{root}')}"
    )
