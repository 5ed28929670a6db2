"""``%%cachelab`` as an input transformation: the cell stays an ordinary cell, its first line starts the recording.

A cell magic gets the cell as text and runs it itself, which swallows ``Out[]``, top-level ``await``, line numbers and
errors. Here the first line alone is replaced, by a call that begins to record, so that IPython compiles and runs the
rest as it would without it; a hook that runs after the cell ends the recording.
"""

from __future__ import annotations

import re
from typing import Final

from IPython.core.inputtransformer2 import cell_magic, leading_indent

_HEADER: Final = re.compile(r"%%cachelab(?:[ \t]+(?P<options>[^\r\n]*?))?[ \t]*\r?\n?$")
_FUTURE: Final = re.compile(r"from\s+__future__\s+import\s")
_HELP: Final = re.compile(r"(?:^|\s)(?:--help|-h)(?:\s|$)")


def transform(lines: list[str]) -> list[str]:
    """Replace a first line ``%%cachelab ...`` by a call of ``%cachelab record ...``; leave other cells alone.

    Parameters
    ----------
    lines
        The cell's lines with their ends, after IPython's own clean-up.

    Returns
    -------
    list of str
        As many lines as came, so that tracebacks count as the user does. A cell magic below the header is the one
        exception: it gets its cell as text in one line, as IPython's own transformation does.
    """
    match = _HEADER.match(lines[0]) if lines else None
    if match is None:
        return lines
    options = match["options"] or ""
    begin = f"get_ipython().run_line_magic('cachelab', {('record ' + options).strip()!r})"
    body = lines[1:]
    if _HELP.search(options):  # A question about the magic runs nothing.
        return [begin + "\n", *("\n" for _line in body)]
    first = next((i for i, line in enumerate(body) if line.strip()), len(body))
    blank, code = body[:first], leading_indent(body[first:])
    if code and code[0].startswith("%%"):
        return [begin + "\n", *cell_magic(code)]
    return _below_future_imports(begin, blank + code)


# IPython asks this transformation for whole cells only, not to find out whether a typed cell is complete: a header
# alone must stay a cell that waits for its body.
transform.has_side_effects = True  # type: ignore[attr-defined]


def _below_future_imports(begin: str, body: list[str]) -> list[str]:
    """Put the call first, or on the line of the last ``from __future__`` import, which must stay first."""
    last, i = -1, 0
    while i < len(body):
        line = body[i]
        if _FUTURE.match(line):
            code = line.partition("#")[0]
            while ("(" in code and ")" not in code) or code.rstrip().endswith("\\"):
                i += 1
                if i == len(body):
                    break
                code = code.rstrip().rstrip("\\") + body[i].partition("#")[0]
            last = i
        elif line.strip() and not line.lstrip().startswith("#"):
            break
        i += 1
    if last < 0 or last >= len(body):
        return [begin + "\n", *body]
    code, hash_sign, comment = body[last].rstrip("\r\n").partition("#")
    joined = f"{code.rstrip()}; {begin}" + (f"  {hash_sign}{comment}" if hash_sign else "")
    return ["\n", *body[:last], joined + "\n", *body[last + 1 :]]
