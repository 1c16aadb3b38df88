"""How a JSON Schema differs from an earlier one, property by property, and what that breaks.

Callers of a tool rely on what its input schema allowed: it breaks them where it allows less.
Readers of results rely on what the output schema excluded: it breaks them where it allows more.
What is not understood counts as breaking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from mcpagg.jsontext import dumps
from mcpagg.lint.schemas import escaped
from mcpagg.ordering import equal


class _Absent:
    """What a member that is not there has for a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

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


class SchemaChange(NamedTuple):
    """One change: its effect (see EFFECTS), its place as a JSON pointer, in words, and the values.

    The words stand behind the place: `/properties/path`: "is required now".
    """

    effect: str
    pointer: str
    what: str
    before: Any = ABSENT
    after: Any = ABSENT

    def class_for(self, *, output: bool) -> str:
        """Return its class, in what a tool takes or in what it returns."""
        return EFFECTS[self.effect][output]


_TEXTS = ("title", "description")
# A larger value allows less.
_LEAST = frozenset(
    "minimum exclusiveMinimum minLength minItems minProperties".split()  # noqa: SIM905
)
_MOST = frozenset(
    "maximum exclusiveMaximum maxLength maxItems maxProperties".split()  # noqa: SIM905
)
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
_DEPENDENT = frozenset({"patternProperties", "minContains", "maxContains"})
_CHOICES = ("anyOf", "oneOf")
_TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]
_OF_ONE_VALUE = ("const", "enum")

# A comparison ends: by following references, a small schema can be made to nest for ever.
DEEPEST = 100  # levels, as many as a schema may have without references
MOST_PLACES = 20_000
MOST_PAIRS = 40_000  # of alternatives, each of which is compared with each


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
        references = _reference(before), _reference(after)
        old, new = before, after
        if references[0] != references[1]:
            if references in self._referred:
                return
            if all(references):
                self._referred.add(references)
            old, new = _target(before, self._before), _target(after, self._after)
        self._depth += 1
        found = [*self._members(_as_object(old), _as_object(new), pointer)]
        self._depth -= 1
        if references[0] != references[1] and _reference(old) != _reference(new):
            what = "refers to something else, which is not followed"
            found.append(SchemaChange("unclear", f"{pointer}/$ref", what, *references))
        if not found:
            effect = "none" if equal(old, new) else "unclear"
            found = [SchemaChange(effect, pointer, "is written in another way", before, after)]
        yield from found

    def _members(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        old = _alternatives(before, self._before)
        new = _alternatives(after, self._after)
        compares_choices = _has_choices(before) != _has_choices(after) and None not in (old, new)
        apart = _APART
        if compares_choices:
            yield from self._choices(old or [], new or [], pointer, "anyOf")
            apart = frozenset({**before, **after}.keys() - _BESIDE_CHOICES)
        else:
            yield from _types(before, after, pointer)
            yield from _values(before, after, pointer)
            yield from self._properties(before, after, pointer)
        for name in {**before, **after}:
            values = before.get(name, ABSENT), after.get(name, ABSENT)
            if name not in apart and not alike(*values):
                yield from self._member(name, *values, f"{pointer}/{escaped(name)}")

    def _member(self, name: str, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        if name in _TEXTS:
            yield _changed("text", pointer, before, after)
        elif name in _LEAST or name in _MOST:
            yield _bound(name, before, after, pointer)
        elif name in _SCHEMAS and not isinstance(before, list) and not isinstance(after, list):
            yield from self._subschema(before, after, pointer)
        elif name in _CHOICES and (before is ABSENT or after is ABSENT):
            yield _changed(_effect_of_assertion(before, after), pointer, before, after)
        elif name == "oneOf" and not (
            _are_apart(_as_list(before), self._before) and _are_apart(_as_list(after), self._after)
        ):
            yield SchemaChange("unclear", pointer, "changed", before, after)
        elif name in (*_CHOICES, "allOf"):
            yield from self._choices(_as_list(before), _as_list(after), pointer, name)
        elif name in ("items", "prefixItems"):
            yield from self._positions(before, after, pointer)
        elif name in ("$defs", "definitions"):
            yield from self._definitions(_as_object(before), _as_object(after), pointer)
        elif name in _DEPENDENT:
            yield _changed("unclear", pointer, before, after)
        elif name in _ASSERTING:
            yield _changed(_effect_of_assertion(before, after), pointer, before, after)
        else:  # of a format or a default no value is refused, and what is not known asserts nothing
            yield _changed("none", pointer, before, after)

    def _subschema(self, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        """Compare what all values of some kind must fit; any value does where there is no such."""
        old, new = (True if one is ABSENT else one for one in (before, after))
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self.changes(old, new, pointer)
            return
        effect = "wider" if _allows_all(new) or old is False else "narrower"
        if _allows_all(old) and _allows_all(new):
            effect = "none"
        yield _changed(effect, pointer, before, after)

    def _definitions(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        for name in {**before, **after}:
            old, new = before.get(name, ABSENT), after.get(name, ABSENT)
            place = f"{pointer}/{escaped(name)}"
            if old is ABSENT or new is ABSENT:  # it is compared where it is referred to
                yield _changed("none", place, old, new)
            else:
                yield from self.changes(old, new, place)

    def _properties(
        self, before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
    ) -> Iterator[SchemaChange]:
        old, new = (_as_object(one.get("properties")) for one in (before, after))
        had, has = (_names(one.get("required")) for one in (before, after))
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
        gone = [one for one in before if not any(equal(one, other) for other in after)]
        come = [one for one in after if not any(equal(one, other) for other in before)]
        if len(gone) == len(come) == 1 and len(before) == len(after):
            yield from self.changes(gone[0], come[0], f"{pointer}/{after.index(come[0])}")
            return
        less, more = ("wider", "narrower") if name == "allOf" else ("narrower", "wider")
        for one in gone:
            yield SchemaChange(less, pointer, "lost an alternative", before=one)
        for one in come:
            yield SchemaChange(more, pointer, "has a new alternative", after=one)
        if not gone and not come:
            yield SchemaChange("none", pointer, "has another order", before, after)

    def _positions(self, before: Any, after: Any, pointer: str) -> Iterator[SchemaChange]:
        """Compare the schemas of the items of an array, by their position."""
        if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
            yield _changed("unclear", pointer, before, after)
            return
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from self.changes(old, new, f"{pointer}/{index}")


# What is compared apart from all other members.
_APART = frozenset({"$ref", "type", "properties", "required", *_OF_ONE_VALUE})
# What may stand beside alternatives without asserting anything.
_BESIDE_CHOICES = frozenset({*_TEXTS, "default"})


def _types(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
) -> Iterator[SchemaChange]:
    old, new = _allowed_types(before), _allowed_types(after)
    values = before.get("type", ABSENT), after.get("type", ABSENT)
    if old == new:
        if not alike(*values):
            yield _changed("none", f"{pointer}/type", *values)
        return
    effect = "narrower" if new < old else "wider" if new > old else "unclear"
    yield _changed(effect, f"{pointer}/type", *values)


def _allowed_types(schema: Mapping[str, Any]) -> frozenset[str]:
    said = schema.get("type", _TYPES)
    names = frozenset(map(str, [said] if isinstance(said, str) else _as_list(said)))
    return names | {"integer"} if "number" in names else names


def _values(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
) -> Iterator[SchemaChange]:
    """Compare `enum`; `const` is one of one value."""
    old, new = _enumerated(before), _enumerated(after)
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
        shown = [{k: v for k, v in one.items() if k in _OF_ONE_VALUE} for one in (before, after)]
        if old.keys() == new.keys() and not equal(*shown):
            yield SchemaChange("none", place, "has another order", *shown)


def _enumerated(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values that a schema allows, by what makes them equal; None for no such list."""
    if "const" in schema:
        return {_key(schema["const"]): schema["const"]}
    values = schema.get("enum")
    return {_key(value): value for value in values} if isinstance(values, list) else None


def _key(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return dumps(value, sort=True)


def _bound(name: str, before: Any, after: Any, pointer: str) -> SchemaChange:
    effect = _effect_of_assertion(before, after)
    if _is_number(before) and _is_number(after):
        effect = "narrower" if (after > before) == (name in _LEAST) else "wider"
    return _changed(effect, pointer, before, after)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _alternatives(schema: Mapping[str, Any], document: Any) -> list[Any] | None:
    """Return what a schema allows as a list of schemas, None where it says more than that.

    So that a type and that type or null are found to be alike, as {"type": "string"} and
    {"anyOf": [{"type": "string"}, {"type": "null"}]} are.
    """
    asserting = {name: one for name, one in schema.items() if name not in _BESIDE_CHOICES}
    if not _has_choices(schema):
        return [asserting]
    [choices, *more] = asserting.values()
    if more or not isinstance(choices, list):
        return None
    return choices if "oneOf" not in asserting or _are_apart(choices, document) else None


def _are_apart(choices: Sequence[Any], document: Any) -> bool:
    """Whether no value fits two of the schemas, so that `oneOf` is as `anyOf`.

    As far as types and constants tell, those of a property that all of them require included.
    """
    if len(choices) ** 2 > MOST_PAIRS:
        return False
    targets = [_as_object(_target(one, document)) for one in choices]
    return all(_exclude(one, other) for one, other in combinations(targets, 2))


def _exclude(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    types = _allowed_types(one) & _allowed_types(other)
    if not types or _have_other_values(one, other):
        return True
    if types != {"object"}:
        return False
    mine, others = (_as_object(schema.get("properties")) for schema in (one, other))
    required = _names(one.get("required")).keys() & _names(other.get("required"))
    return any(
        _have_other_values(_as_object(mine.get(name)), _as_object(others.get(name)))
        for name in required
    )


def _have_other_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    mine, others = _enumerated(one), _enumerated(other)
    return mine is not None and others is not None and not mine.keys() & others.keys()


def _has_choices(schema: Mapping[str, Any]) -> bool:
    return any(name in schema for name in _CHOICES)


def _reference(schema: Any) -> str:
    return str(schema.get("$ref", "")) if isinstance(schema, dict) else ""


def _target(schema: Any, document: Any) -> Any:
    """Return the schema that one refers to within its document, with what stands beside.

    Itself, where that is not there, or asserts otherwise what is asserted beside: both hold then.
    """
    for _ in range(10):  # a reference may lead to a reference
        reference = _reference(schema)
        found = _at(document, reference[1:]) if reference.startswith("#") else ABSENT
        if found is ABSENT:
            break
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        said = _as_object(found)
        both = said.keys() & beside.keys() - _BESIDE_CHOICES
        if any(not equal(said[name], beside[name]) for name in both):
            break
        schema = {**found, **beside} if isinstance(found, dict) else found
    return schema


def _at(document: Any, pointer: str) -> Any:
    if pointer and not pointer.startswith("/"):  # an anchor
        return ABSENT
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(document, dict) or name not in document:
            return ABSENT
        document = document[name]
    return document


def _as_object(schema: Any) -> dict[str, Any]:
    """Return a schema that may be true or false, or no schema at all, as an object."""
    if isinstance(schema, dict):
        return schema
    return {"not": {}} if schema is False else {}


def _allows_all(schema: Any) -> bool:
    return schema is True or schema == {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> dict[str, None]:
    return {name: None for name in _as_list(value) if isinstance(name, str)}


def _changed(effect: str, pointer: str, before: Any, after: Any) -> SchemaChange:
    return SchemaChange(effect, pointer, became(before, after), before, after)


def _effect_of_assertion(before: Any, after: Any) -> str:
    return "narrower" if before is ABSENT else "wider" if after is ABSENT else "unclear"


def alike(before: Any, after: Any) -> bool:
    """Whether two values are equal, or both ABSENT."""
    if before is ABSENT or after is ABSENT:
        return before is after
    return equal(before, after)


def became(before: Any, after: Any) -> str:
    """Say what became of a member that has other values now."""
    return "was added" if before is ABSENT else "was removed" if after is ABSENT else "changed"
