"""Registries of rules by op type, which know when they last changed."""

from __future__ import annotations

from typing import Any, ClassVar


class Registry(dict[str, Any]):
    """Op type -> rule; ``changes`` counts what was registered in any of them.

    What was found out about a loss holds only for the rules of that time.
    """

    changes: ClassVar[int] = 0

    def __setitem__(self, op_type: str, rule: Any) -> None:
        super().__setitem__(op_type, rule)
        Registry.changes += 1
