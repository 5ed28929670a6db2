"""What differs between two signatures of a ``tf.function``: which argument, how, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.function.trace_type import default_types

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Change:
    """One reason for a trace.

    Attributes
    ----------
    kind
        ``number`` (a Python number), ``value`` (another Python value), ``shape``, ``dtype``, ``object`` (a new
        object), ``structure`` (a keyword, key or kind of argument), ``variable`` (one was made on the first call),
        ``context`` (device, XLA or graph around the call), ``new_function`` (``tf.function`` applied again).
    argument
        Such as ``x``, ``data[0]`` or ``options['rate']``; ``""`` if it is no argument.
    before, after
        What an earlier trace had and what this one has.
    fix
        What to do so that it is not traced again.
    """

    kind: str
    argument: str
    before: str
    after: str
    fix: str

    @property
    def text(self) -> str:
        """One sentence on what changed, without the fix."""
        if not self.argument:
            return self.after
        return _("argument `{argument}` is {after}, not {before}").format(
            argument=self.argument, after=self.after, before=self.before
        )


def changes(old: Any, new: Any) -> list[Change]:
    """Return what differs between two ``FunctionType`` s, argument by argument."""
    return list(_mapping_changes("", _constraints(old), _constraints(new)))


def signature(function_type: Any) -> str:
    """Return a signature in one line, such as ``x: float32[8,2], n: 3``."""
    return ", ".join(f"{name}: {describe(kind)}" for name, kind in _constraints(function_type).items())


def describe(kind: Any) -> str:
    """Return a short text for a trace type."""
    if isinstance(kind, tf.TensorSpec):
        return kind.dtype.name + _shape(kind)
    if isinstance(kind, default_types.Literal):
        return repr(kind.value)
    if isinstance(kind, default_types.Weakref):
        target = kind._ref()
        return _("an object that is gone") if target is None else _("object {kind}").format(kind=type(target).__name__)
    inner = _children(kind)
    if inner is not None:
        body = ", ".join(f"{key}: {describe(child)}" for key, child in inner.items())
        return f"{type(kind).__name__.lower()}({body})"
    return str(kind) if isinstance(kind, tf.TypeSpec) else type(kind).__name__


def _shape(spec: Any) -> str:
    return "[?]" if spec.shape.rank is None else "[" + ",".join("?" if n is None else str(n) for n in spec.shape) + "]"


def _constraints(function_type: Any) -> dict[str, Any]:
    return {name: parameter.type_constraint for name, parameter in function_type.parameters.items()}


def _children(kind: Any) -> dict[str, Any] | None:
    """Return the parts of a nested trace type by the text that reaches them, ``None`` for a leaf."""
    if isinstance(kind, default_types.Dict):
        return {f"[{key!r}]": child for key, child in kind.mapping.items()}
    if isinstance(kind, default_types.List):
        kind = kind.components_tuple
    if isinstance(kind, default_types.Tuple):
        return {f"[{index}]": child for index, child in enumerate(kind.components)}
    if isinstance(kind, default_types.Attrs):
        kind = kind.named_attributes
    if isinstance(kind, default_types.NamedTuple):
        return {f".{name}": c for name, c in zip(kind.attribute_names, kind.attributes.components, strict=True)}
    return None


def _mapping_changes(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new:
            yield from _changes(path + key, old[key], new[key])
        else:
            absent, present = _("absent"), describe(old[key] if key in old else new[key])
            before, after = (present, absent) if key in old else (absent, present)
            yield Change("structure", path + key, before, after, _structure_fix())


def _changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    before, after = describe(old), describe(new)
    inner_old, inner_new = _children(old), _children(new)
    if inner_old is not None and inner_new is not None and type(old) is type(new):
        yield from _mapping_changes(path, inner_old, inner_new)
    elif isinstance(old, tf.TensorSpec) and isinstance(new, tf.TensorSpec):
        yield from _tensor_changes(path, old, new)
    elif isinstance(new, default_types.Literal) and _is_number(new.value) and not _is_none(old):
        fix = _("pass a tensor: {argument}=tf.constant({value!r})").format(argument=path, value=new.value)
        yield Change("number", path, before, after, fix)
    elif isinstance(new, default_types.Weakref):
        if before == after:
            before, after = _("an earlier object of this kind"), _("a new {object}").format(object=after)
        yield Change(
            "object",
            path,
            before,
            after,
            _("pass the same object each time, or only its tensors: each new object means a new graph"),
        )
    elif isinstance(old, default_types.Literal) and isinstance(new, default_types.Literal):
        fix = _("each Python value has a graph of its own: keep to few values, or pass a tensor and use tf.cond")
        yield Change("value", path, before, after, fix)
    elif isinstance(old, tf.TypeSpec) and isinstance(new, tf.TypeSpec) and type(old) is type(new):
        fix = _("use tf.function(reduce_retracing=True), or an input_signature that covers both")
        yield Change("shape", path, str(old), str(new), fix)
    else:
        yield Change("structure", path, before, after, _structure_fix())


def _tensor_changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    if old.dtype != new.dtype:
        fix = _("convert to one dtype before the call: tf.cast({argument}, tf.{dtype})")
        dtypes = [_("of dtype {dtype}").format(dtype=spec.dtype.name) for spec in (old, new)]
        yield Change("dtype", path, *dtypes, fix.format(argument=path, dtype=old.dtype.name))
    if old.shape.rank != new.shape.rank or old.shape != new.shape:
        general = old.most_specific_common_supertype([tf.TensorSpec(new.shape, old.dtype)])
        shape = None if general is None or general.shape.rank is None else general.shape.as_list()
        fix = _("use tf.function(reduce_retracing=True), or input_signature with tf.TensorSpec({shape}, tf.{dtype})")
        shapes = [_("of shape {shape}").format(shape=_shape(spec)) for spec in (old, new)]
        yield Change("shape", path, *shapes, fix.format(shape=shape, dtype=new.dtype.name))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex) and not isinstance(value, bool)


def _is_none(kind: Any) -> bool:
    return isinstance(kind, default_types.Literal) and kind.value is None


def _structure_fix() -> str:
    return _("pass the same keywords, keys and kinds of argument in every call")
