"""How a JSON Schema differs from an earlier one, property by property, and what that breaks.

Callers of a tool rely on what its input schema allowed: it breaks them where it allows less.
Readers of results rely on what the output schema excluded: it breaks them where it allows more.
What is not understood counts as breaking.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.keywords import (
    BESIDE_CHOICES,
    CHOICES,
    MOST_PAIRS,
    OF_ONE_VALUE,
    TEXTS,
    allowed_types,
    allows_all,
    alternatives,
    are_apart,
    as_object,
    enumerated,
    has_choices,
    is_number,
    names_in,
    reference_of,
    target_of,
)
from mcpagg_runtime.lists.values import (
    ABSENT,
    alike,
    became,
    differing,
    equal,
    escaped,
    items_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

BREAKING, COMPATIBLE, TEXT = "schema-breaking", "schema-compatible", "text"

EFFECTS = {
    "narrower": (BREAKING, COMPATIBLE),
    "wider": (COMPATIBLE, BREAKING),
    "optional property": (COMPATIBLE, COMPATIBLE),
    "required property": (BREAKING, COMPATIBLE),
    "removed property": (BREAKING, BREAKING),
    "none": (COMPATIBLE, COMPATIBLE),
    "unclear": (BREAKING, BREAKING),
    "text": (TEXT, TEXT),
}
"""What a change does to the values that a schema allows: its class for input, and for output."""


class SchemaChange(
    namedtuple("SchemaChange", "effect pointer what before after", defaults=(ABSENT, ABSENT))
):
    """One change: its effect (see EFFECTS), its place as a JSON pointer, and its values.

    `what` says what became of the place, as a clause after it: "is required now".
    """

    __slots__ = ()

    def class_for(self, *, output: bool) -> str:
        class_: str = EFFECTS[self.effect][output]
        return class_


# A larger value allows less.
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# The schemas that all values of some kind must fit.
_SCHEMAS = frozenset(
    "items additionalProperties additionalItems propertyNames"  # noqa: SIM905
    " unevaluatedProperties unevaluatedItems".split()
)
_ASSERTING = frozenset(
    "multipleOf pattern uniqueItems contains not if then else"  # noqa: SIM905
    " dependentRequired dependentSchemas dependencies contentSchema $dynamicRef".split()
)
# What each of these allows depends on a keyword beside it.
_DEPENDENT = ("patternProperties", "minContains", "maxContains")

# A comparison ends: by following references, a small schema can be made to nest for ever.
DEEPEST = 100  # levels, as many as a schema may have without references
MOST_PLACES = 20_000


def schema_changes(before: Any, after: Any, pointer: str = "") -> Iterator[SchemaChange]:
    """Yield how a schema that stands at `pointer` differs from an earlier one, if it does."""
    yield from _Comparison(before, after).changes(before, after, pointer)


class _Comparison:
    """Compares two documents; a pair of places is compared once, however it is reached.

    What is too deep, or too much, to compare counts as breaking.
    """

    def __init__(self, before: Any, after: Any) -> None:
        self._before = before
        self._after = after
        self._referred: set[tuple[str, str]] = set()
        # By identity, which only holds for what is kept.
        self._compared: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._depth = 0

    def changes(self, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        """Yield how the schema `after` differs from `before`.

        At least one change, unless they are equal or were compared before. What both refer to
        under one name is compared where it stands.
        """
        places = id(before), id(after)
        if places in self._compared or equal(before, after):
            return
        if self._depth == DEEPEST or len(self._compared) == MOST_PLACES:
            yield SchemaChange("unclear", pointer, "changed, and is too much to compare")
            return
        self._compared[places] = before, after
        references = reference_of(before), reference_of(after)
        old, new = before, after
        if references[0] != references[1]:
            if references in self._referred:
                return
            if all(references):
                self._referred.add(references)
            old, new = target_of(before, self._before), target_of(after, self._after)
        self._depth += 1
        changes = [*self._members(as_object(old), as_object(new), pointer)]
        self._depth -= 1
        if references[0] != references[1] and reference_of(old) != reference_of(new):
            what = "refers to something else, which is not followed"
            changes.append(SchemaChange("unclear", f"{pointer}/$ref", what, *references))
        if not changes:
            effect = "none" if equal(old, new) else "unclear"
            changes = [SchemaChange(effect, pointer, "is written in another way", before, after)]
        yield from changes

    def _members(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        old = alternatives(before, self._before)
        new = alternatives(after, self._after)
        compares_choices = has_choices(before) != has_choices(after) and None not in (old, new)
        apart = _APART
        if compares_choices:
            yield from self._choices(old or [], new or [], pointer, "anyOf")
            apart = frozenset({**before, **after}.keys() - BESIDE_CHOICES)
        else:
            yield from _types(before, after, pointer)
            yield from _values(before, after, pointer)
            yield from self._properties(before, after, pointer)
        for name in {**before, **after}:
            values = before.get(name, ABSENT), after.get(name, ABSENT)
            if name not in apart and not alike(*values):
                yield from self._member(name, *values, f"{pointer}/{escaped(name)}")

    def _member(self, name: str, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        is_listed = isinstance(before, list) or isinstance(after, list)
        is_whole = before is ABSENT or after is ABSENT
        if name in _SCHEMAS and not is_listed:
            yield from self._subschema(before, after, pointer)
        elif name in ("items", "prefixItems"):
            yield from self._positions(before, after, pointer)
        elif name in ("$defs", "definitions"):
            yield from self._definitions(as_object(before), as_object(after), pointer)
        elif name == "oneOf" and not is_whole and not self._are_both_apart(before, after):
            yield SchemaChange("unclear", pointer, "changed", before, after)
        elif name == "allOf" or (name in CHOICES and not is_whole):
            yield from self._choices(items_of(before), items_of(after), pointer, name)
        else:
            yield _changed(_effect(name, before, after), pointer, before, after)

    def _are_both_apart(self, before: Any, after: Any) -> bool:
        return are_apart(items_of(before), self._before) and are_apart(items_of(after), self._after)

    def _subschema(self, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        """Compare the schemas of all values of some kind; without one, any value is valid."""
        old, new = (True if value is ABSENT else value for value in (before, after))
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self.changes(old, new, pointer)
            return
        effect = "wider" if allows_all(new) or old is False else "narrower"
        if allows_all(old) and allows_all(new):
            effect = "none"
        yield _changed(effect, pointer, before, after)

    def _definitions(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        for name, old, new in differing(before, after):
            place = f"{pointer}/{escaped(name)}"
            if old is ABSENT or new is ABSENT:  # it is compared where it is referred to
                yield _changed("none", place, old, new)
            else:
                yield from self.changes(old, new, place)

    def _properties(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        old, new = (as_object(schema.get("properties")) for schema in (before, after))
        had, has = (names_in(schema.get("required")) for schema in (before, after))
        for name in {**old, **new, **had, **has}:
            place = f"{pointer}/properties/{escaped(name)}"
            if name in old and name not in new and name not in has:
                yield SchemaChange("removed property", place, "was removed", before=old[name])
                continue
            if name in new and name not in old and name not in had:
                kind = "required" if name in has else "optional"
                what = f"was added, {kind}"
                yield SchemaChange(f"{kind} property", place, what, after=new[name])
                continue
            if name in has and name not in had:
                yield SchemaChange("narrower", place, "is required now")
            if name in had and name not in has:
                yield SchemaChange("wider", place, "is optional now")
            if name in old and name in new:
                yield from self.changes(old[name], new[name], place)
            elif name in old:
                yield SchemaChange("wider", place, "is no longer described", before=old[name])
            elif name in new:
                yield SchemaChange("narrower", place, "is described now", after=new[name])

    def _choices(
        self, before: list[Any], after: list[Any], pointer: str, name: str
    ) -> Iterator[SchemaChange]:
        """Compare lists of schemas of which one must fit, or all of them (allOf)."""
        if len(before) * len(after) > MOST_PAIRS:
            if not equal(before, after):
                what = "changed, and has too many alternatives to compare"
                yield SchemaChange("unclear", pointer, what)
            return
        gone = [choice for choice in before if not any(equal(choice, other) for other in after)]
        come = [choice for choice in after if not any(equal(choice, other) for other in before)]
        if len(gone) == len(come) == 1 and len(before) == len(after):
            yield from self.changes(gone[0], come[0], f"{pointer}/{after.index(come[0])}")
            return
        less, more = ("wider", "narrower") if name == "allOf" else ("narrower", "wider")
        for choice in gone:
            yield SchemaChange(less, pointer, "lost an alternative", before=choice)
        for choice in come:
            yield SchemaChange(more, pointer, "has a new alternative", after=choice)
        if not gone and not come:
            yield SchemaChange("none", pointer, "has another order", before, after)

    def _positions(self, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        """Compare the schemas of the items of an array, by their position."""
        if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
            yield _changed("unclear", pointer, before, after)
            return
        for index, (old, new) in enumerate(zip(before, after)):  # noqa: B905 - of one length
            yield from self.changes(old, new, f"{pointer}/{index}")


# What is compared apart from all other members.
_APART = frozenset({"$ref", "type", "properties", "required", *OF_ONE_VALUE})


def _types(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
) -> Iterator[SchemaChange]:
    old, new = allowed_types(before), allowed_types(after)
    values = before.get("type", ABSENT), after.get("type", ABSENT)
    if old == new:
        if not alike(*values):
            yield _changed("none", f"{pointer}/type", *values)
        return
    effect = "narrower" if new < old else "wider" if new > old else "unclear"
    yield _changed(effect, f"{pointer}/type", *values)


def _values(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
) -> Iterator[SchemaChange]:
    """Compare `enum`; `const` is one of one value."""
    old, new = enumerated(before), enumerated(after)
    place = f"{pointer}/enum"
    if old is None and new is None:
        return
    if old is None:
        yield SchemaChange("narrower", place, "was added", after=[*(new or {}).values()])
    elif new is None:
        yield SchemaChange("wider", place, "was removed", before=[*old.values()])
    else:
        for key in [key for key in old if key not in new]:
            yield SchemaChange("narrower", place, "lost a value", before=old[key])
        for key in [key for key in new if key not in old]:
            yield SchemaChange("wider", place, "has a new value", after=new[key])
        values = [
            {k: v for k, v in schema.items() if k in OF_ONE_VALUE} for schema in (before, after)
        ]
        if old.keys() == new.keys() and not equal(*values):
            yield SchemaChange("none", place, "has another order", *values)


def _effect(name: str, before: Any, after: Any) -> str:
    """Return the effect of another value of a keyword that holds no schemas to go through."""
    if name in TEXTS:
        return "text"
    if name in _DEPENDENT:
        return "unclear"
    if name in (*_LEAST, *_MOST) and is_number(before) and is_number(after):
        return "narrower" if (after > before) == (name in _LEAST) else "wider"
    if name in (*_LEAST, *_MOST, *CHOICES, *_ASSERTING):
        return "narrower" if before is ABSENT else "wider" if after is ABSENT else "unclear"
    # Of a format or a default no value is refused, and what is not known asserts nothing.
    return "none"


def _changed(effect: str, pointer: str, before: Any, after: Any) -> SchemaChange:
    return SchemaChange(effect, pointer, became(before, after), before, after)
