"""The components of an input as Accelergy understands them, with all text worked out and compound ones expanded.

Accelergy evaluates the text of its input in Python. Here the same text is worked out by `yaml.expressions`, in the same
order and with the same names in reach, so that Accelergy is asked about primitive components only. The rules are
those of Accelergy 0.4 (its `raw_inputs_2_dicts.py`, `arch_dict_2_obj.py` and `compound_component.py`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import RANGE
from fadiff_mapper.inputs.yaml.expressions import ExpressionError, Literal, evaluate, syntax_tree
from fadiff_mapper.inputs.yaml.located import LARGEST

MOST_WORK = 200_000
"""Most values that are computed for one input, long expressions counted as several: above all public designs."""
DEEPEST = 20  # compound components inside each other, a plain safety limit; it ends classes that contain themselves
REQUIRED = ("global_cycle_seconds", "technology")  # attributes without which Accelergy 0.4 estimates nothing
MUST_SPECIFY = "must_specify"  # in place of a default: the attribute has none
TIMELOOPS = re.compile(r"power_gated_at|network[_-]\w+", re.ASCII)
"""Attributes whose texts, such as "1:N" or the name of a level, are only for Timeloop."""
INSTANCES = re.compile(r"\[(-?\d+)\.\.(-?\d+)\]", re.ASCII)  # a range of instances whose bounds are worked out
ACCEPTED = "numbers, words in quotes, and arithmetic with them and with attributes"
RANGES = "a range of whole numbers, such as 0..3"
SCALES = ("area_scale", "energy_scale")
Names = Mapping[str, Any]  # values of attributes, arguments or variables by name


@dataclass(frozen=True)
class PrimitiveComponent:
    """A component that a plug-in of Accelergy knows, in the architecture or within a compound component."""

    name: str  # full name with ranges; within a compound component from there on, such as "lane[0..3].adder"
    kind: str
    attributes: Names  # values by name
    area_scale: float = 1.0  # factor on its area; for a part, times the factors of the compound components around it
    energy_scale: float = 1.0  # factor on its energies, in the same way
    actions: tuple[str, ...] = ()  # the actions that the architecture asks for; none within a compound component
    # Attributes that Accelergy can do without: inherited from containers, or only for Timeloop.
    spare: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PartAction:
    """An action of primitive components within a compound one."""

    name: str  # name of the called components as written; of a range of components it may name only some
    part: PrimitiveComponent  # the component
    action: str  # name of the action
    arguments: Names  # values by name
    energy_scale: float  # factor on the energy, the factors of the actions around it included


@dataclass(frozen=True)
class CompoundAction:
    """An action of a compound component, with one value for each of its arguments, and the steps that it is made of."""

    name: str
    arguments: Mapping[str, int]
    steps: tuple[PartAction, ...]


@dataclass(frozen=True)
class CompoundComponent:
    """A component of the architecture whose class the input defines: full name, values, primitive parts, actions."""

    name: str
    kind: str
    attributes: Names
    parts: tuple[PrimitiveComponent, ...]
    actions: tuple[CompoundAction, ...]


@dataclass(frozen=True)
class DescribedHardware:
    """All components of an input."""

    version: str  # version of Accelergy's format that the input states; plug-ins may tell versions apart
    components: tuple[PrimitiveComponent | CompoundComponent, ...]  # in the order of the architecture
    unknown: frozenset[str] = frozenset()  # attributes of containers that cannot be worked out, such as functions

    @property
    def primitives(self) -> tuple[PrimitiveComponent, ...]:
        """The primitive components, about which Accelergy is asked directly."""
        return tuple(one for one in self.components if isinstance(one, PrimitiveComponent))

    @property
    def compounds(self) -> tuple[CompoundComponent, ...]:
        """The compound components; Accelergy is asked about their parts."""
        return tuple(one for one in self.components if isinstance(one, CompoundComponent))


def described(arch: Architecture, literal: Mapping[str, Any]) -> DescribedHardware:
    """Works out the components of an input; `literal` gives `variables` and `compound_components`.

    Classes that no component has are not looked at. Raises SpecError.
    """
    root = next(iter(arch.native.values()))
    given = _dict(literal.get("compound_components"), "compound_components")
    version = str(root.get("version", "0.4"))
    latest = str(given.get("version", version))  # applies to every step after the tree is read
    classes = {str(one.get("name")): one for one in _dicts(given.get("classes"), "compound_components: classes")}
    trees = _dicts(root.get("subtree"), "architecture: subtree")
    node, path = (trees[0], str(trees[0].get("name", "arch"))) if trees else (root, "")
    rules = _Rules(_legacy(version), classes)
    variables = _Rules(False, {}).in_turn(_dict(literal.get("variables"), "variables"), {}, "variables")
    placed = dict(rules.components(node, path, _attributes(node.get("attributes")) if trees else {}, variables))
    late = _Rules(_legacy(latest), classes, left=rules.left)
    return DescribedHardware(latest, tuple(late.defined(name, one) for name, one in placed.items()),
                             frozenset(rules.unknown))


def instances(name: str) -> int:
    """The number of components that a name with ranges covers."""
    return math.prod(int(last) - int(first) + 1 for first, last in INSTANCES.findall(name))


@dataclass
class _Rules:
    """The rules by which text becomes values, with the work that they may still do."""

    legacy: bool  # whether the input states a version before 0.4, in which text that is no expression is a word
    classes: Mapping[str, Mapping[str, Any]]  # the definitions of compound components by class
    # Actions that are called but not defined, by class: from the call on, the class has them, at no energy.
    added: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    left: int = MOST_WORK  # units of `MOST_WORK` not yet spent
    unknown: set[str] = field(default_factory=set)  # see `DescribedHardware`

    def spend(self, work: int, place: str) -> None:
        """Charges the work of computing values. Raises SpecError once `MOST_WORK` is spent."""
        self.left -= work
        if self.left < 0:
            raise SpecError(f"{place}: found too much to work out; accepted: {MOST_WORK:,} values of attributes and "
                            "arguments at most, in all components together")

    def value(self, text: Any, names: Names, place: str, words: bool = True) -> Any:
        """The value of an attribute, argument or scale; `words`: whether text may stay text, if it is no expression."""
        self.spend(1 + (len(text) ** 2 // 1000 if isinstance(text, str) else 0), place)
        if words and isinstance(text, Literal):
            return text
        if str(text).lower() in ("true", "false"):
            return str(text).lower() == "true"
        try:
            return int(text) if float(text) == int(text) else float(text)
        except (TypeError, ValueError, OverflowError):
            if not isinstance(text, str):
                return text
        word = text.strip()
        try:
            result = names.get(word) if word == "None" or (word.isidentifier() and word in names) \
                else evaluate(text, names)
        except ExpressionError as error:
            try:
                expression = not self.legacy and bool(syntax_tree(text))  # by its form: `45nm` is none
            except ExpressionError:
                expression = False
            if words and not expression:
                return text
            raise _refusal(place, text, f" ({error})") from None
        return Literal(result) if isinstance(result, str) else result

    def factor(self, text: Any, names: Names, place: str) -> float:
        """A scale, 1 where none is written."""
        value = 1.0 if text is None else self.value(text, names, place, words=False)
        if not isinstance(value, bool | int | float) or not abs(value) <= LARGEST:
            raise _refusal(place, value, accepted=f"numbers up to {LARGEST:g}, and arithmetic with attributes")
        return value

    def in_turn(self, texts: Mapping[str, Any], names: Names, place: str, strict: bool = True) -> dict[str, Any]:
        """Computes values in order: each can use the values before it and `names`, which also supply missing ones.

        Unless `strict`, values that cannot be computed are left out and recorded in `unknown`.
        """
        self.spend(1, place)
        done: dict[str, Any] = {}
        reach = ChainMap(done, dict(names))
        for key, text in texts.items():
            try:
                done[key] = self.value(text, reach, f"{place}: {key}")
            except SpecError:
                if strict or self.left < 0:
                    raise
                self.unknown.add(key)

        def complete(key: str, default: Any = None) -> None:
            for found in (done, names):
                for spelling in (key, key.upper()):
                    if key not in done and spelling in found:
                        done[key] = found[spelling]
            if key not in done and default is not None:
                done[key] = default

        if self.legacy:
            complete(REQUIRED[0], done.get("latency", 1e-9))
            cycle = done.get(REQUIRED[0])
            if isinstance(cycle, str):
                done[REQUIRED[0]] = type(cycle)(cycle.replace("ns", "e-9").replace(" ", ""))
            return done
        complete(REQUIRED[0])
        complete("action_latency_cycles", 1)
        if REQUIRED[0] in done:
            done.setdefault("cycle_seconds", done[REQUIRED[0]])
        complete(REQUIRED[1])
        complete("n_instances", 1)
        return done

    def name(self, text: Any, names: Names, place: str) -> str:
        """A name with the bounds of its range of instances computed. As in Accelergy, text after the range is lost."""
        base, bracket, rest = str(text).partition("[")
        bounds, closed, _ = rest.partition("]")
        if not (bracket and closed and ".." in bounds):
            return str(text)
        first, last = (self.factor(bound, names, place) for bound in bounds.split("..", 1))
        if int(first) > int(last):
            raise _refusal(place, text, accepted=RANGES)
        return f"{base}[{int(first)}..{int(last)}]"

    def components(self, node: Mapping[str, Any], path: str, around: Names,
                   variables: Names) -> Iterator[tuple[str, dict[str, Any]]]:
        """(full name, component with all its attributes) for a node of the tree and those inside it."""
        place = f"architecture: {path}"
        around = self.in_turn(around, variables, place, strict=False)
        for inner in _dicts(node.get("subtree"), f"{place}: subtree"):
            attributes = around | _attributes(inner.get("attributes"))
            name = self.name(inner.get("name"), attributes | dict(variables), place)
            yield from self.components(inner, f"{path}.{name}", attributes, variables)
        for component in _dicts(node.get("local"), f"{place}: local"):
            own = _attributes(component.get("attributes"))
            inherited = {key: value for key, value in around.items() if key not in own}
            own = self.in_turn(own | inherited, variables, f"{place}.{component.get('name')}")
            name = self.name(component.get("name"), dict(variables) | own, place)
            yield f"{path}.{name}".lstrip("."), component | {"attributes": own, "inherited": inherited}

    def defined(self, name: str, component: Mapping[str, Any]) -> PrimitiveComponent | CompoundComponent:
        """A component of the architecture with the defaults of its class; a compound component also with its parts."""
        kind, place = str(component.get("subclass") or component.get("class", "")), f"architecture: {name}"
        required = component.get("required_actions") or []
        if not isinstance(required, list):
            raise _refusal(place, required, accepted="a list of names")
        required = [str(action) for action in required]
        attributes = dict(component["attributes"])
        attributes = self.in_turn(attributes | self.defaults(kind, attributes, place), {}, place)
        area, energy = (self.factor(component.get(key), attributes, f"{place}: {key}") for key in SCALES)
        for key in () if self.legacy else REQUIRED:
            if key not in attributes:
                raise SpecError(f'{place}: has no "{key}", without which Accelergy estimates nothing; accepted: '
                                f"attributes: {key}, there or in a container around it")
        if kind not in self.classes:
            spare = {key for key in attributes if key in component["inherited"] or TIMELOOPS.fullmatch(key)}
            return PrimitiveComponent(name, kind, attributes, area, energy, tuple(required),
                                      frozenset(spare - {*REQUIRED}))
        if self.classes[kind].get("primitive_type") is not None:
            raise SpecError(f'{place}: its class "{kind}" has a primitive_type, which is not worked out here; '
                            "accepted: a class with subcomponents and actions alone")
        written = [str(one["name"]) for one in _by_name(self.classes[kind].get("actions"), f'class "{kind}": actions')]
        for missing in (action for action in required if action not in written):
            raise SpecError(f'{place}: its class "{kind}" has no action "{missing}", which is needed; accepted: a '
                            "class with all of " + ", ".join(required))
        return _compound(self, name, kind, attributes, area, energy)

    def defaults(self, kind: str, attributes: Names, place: str) -> dict[str, Any]:
        """The attributes that a class declares: values from `attributes`, else the defaults of the class."""
        found = {}
        for key, default in _dict(self.classes.get(kind, {}).get("attributes"), f'class "{kind}": attributes').items():
            found[key] = default if attributes.get(key) is None else attributes[key]
            if attributes.get(key) is None and default == MUST_SPECIFY:
                raise SpecError(f'{place}: has no "{key}", which its class "{kind}" must be given; '
                                f"accepted: attributes: {key}")
        return found


def _compound(rules: _Rules, name: str, kind: str, attributes: Names, area: float, energy: float) -> CompoundComponent:
    """A compound component with its primitive parts and actions; `area` and `energy` are its scale factors."""
    places: dict[str, tuple[str, Names]] = {}  # class and attributes of everything inside, by name without ranges

    def place_of(kind: str, inside: str) -> str:
        return f'{name}: class "{kind}": {inside}'

    def parts_of(kind: str, attributes: Names, path: str) -> Iterator[PrimitiveComponent]:
        around = place_of(kind, "subcomponents")
        if path.count(".") > DEEPEST:
            raise SpecError(f"{place_of(kind, path)}: found compound components more than {DEEPEST} deep in each "
                            f"other; accepted: {DEEPEST} at most")
        for written in _by_name(rules.classes[kind].get("subcomponents"), around):
            inner = path + rules.name(written["name"], attributes, around)
            inner_kind, place = str(written.get("class", "")), place_of(kind, inner)
            texts = _dict(written.get("attributes"), f"{place}: attributes")
            own = rules.in_turn(texts, attributes, place)
            known = rules.defaults(inner_kind, own, place)
            own = rules.in_turn({key: own[key] for key in own if key not in known} | known, attributes, place)
            scales = [rules.factor(written.get(key, texts.get(key)), dict(attributes) | own, f"{place}: {key}")
                      for key in SCALES]
            if inner_kind in rules.classes:
                for part in parts_of(inner_kind, own, f"{inner}."):
                    yield replace(part, area_scale=part.area_scale * scales[0],
                                  energy_scale=part.energy_scale * scales[1])
            else:
                yield PrimitiveComponent(inner, inner_kind, own, scales[0] * area, scales[1] * energy)
            places[RANGE.sub("", inner)] = inner_kind, own

    def actions_of(kind: str) -> list[Mapping[str, Any]]:
        written = _by_name(rules.classes[kind].get("actions"), place_of(kind, "actions"))
        return [*written, *rules.added.get(kind, ())]

    def steps_of(action: Mapping[str, Any], path: str, attributes: Names, arguments: Names,
                 scale: float) -> Iterator[PartAction]:
        """The actions of primitive components in an action of the component at `path`."""
        names, place = dict(attributes) | dict(arguments), place_of(kind, f'action "{action["name"]}"')
        for called in _by_name(action.get("subcomponents"), place):
            inner = path + rules.name(called["name"], names, place)
            bare = RANGE.sub("", inner)
            if bare not in places:
                raise SpecError(f'{place}: there is no subcomponent "{inner}"; accepted: ' + ", ".join(places))
            inner_kind, own = places[bare]
            for step in _dicts(called.get("actions"), f"{place}: {inner}"):
                at, verb = f"{place}: {inner}", str(step.get("name"))
                factor = rules.factor(step.get("repeat", step.get("energy_scale")), names, at) * scale
                given = rules.in_turn(_dict(step.get("arguments"), f"{at}: arguments"), names, at)
                if inner_kind not in rules.classes:
                    yield PartAction(inner, primitive[bare], verb, given, factor)
                    continue
                defined = next((one for one in actions_of(inner_kind) if str(one["name"]) == verb), None)
                if defined is None:
                    rules.added.setdefault(inner_kind, []).append({"name": verb})
                else:
                    yield from steps_of(defined, f"{inner}.", own, given, factor)

    parts = {part.name: part for part in parts_of(kind, attributes, "")}
    primitive = {RANGE.sub("", inner): part for inner, part in parts.items()}
    actions = []
    for action in actions_of(kind):  # once for every combination of its arguments
        place = place_of(kind, f'action "{action["name"]}"')
        scale = action.get("repeat", action.get("energy_scale"))  # the older and the newer name of the key
        if isinstance(scale, str):  # this scale cannot refer to attributes
            raise _refusal(f"{place}: energy_scale", scale)
        factor = rules.factor(scale, {}, f"{place}: energy_scale")
        ranges = {}
        for key, text in _dict(action.get("arguments"), f"{place}: arguments").items():
            bounds = [rules.value(bound, attributes, f"{place}: {key}", words=False)
                      for bound in str(text).split("..")[:2]]
            if len(bounds) < 2 or any(type(bound) is not int for bound in bounds):
                raise _refusal(f"{place}: arguments: {key}", text, accepted=RANGES)
            ranges[key] = range(bounds[0], bounds[1] + 1)
        rules.spend(math.prod(max(0, values.stop - values.start) for values in ranges.values()), place)
        for values in itertools.product(*reversed(ranges.values())):  # the first argument changes fastest
            arguments = dict(zip(ranges, reversed(values), strict=True))
            steps = tuple(steps_of(action, "", attributes, arguments, factor))
            actions.append(CompoundAction(str(action["name"]), arguments, steps))
    return CompoundComponent(name, kind, attributes, tuple(parts.values()), tuple(actions))


def _legacy(version: str) -> bool:
    """Whether a version is before 0.4. Raises SpecError."""
    try:
        return tuple(map(int, version.split("."))) < (0, 4)
    except ValueError:
        raise SpecError(f"version: found {version[:60]!r}; accepted: a version of Accelergy's format, such as 0.4"
                        ) from None


def _attributes(attributes: object) -> dict[str, Any]:
    """Attributes without those that are mappings, which Accelergy does not know; `TIMELOOPS` become literal text."""
    return {str(key): Literal(value) if isinstance(value, str) and TIMELOOPS.fullmatch(str(key)) else value
            for key, value in attributes.items() if not isinstance(value, dict)} if isinstance(attributes, dict) else {}


def _dict(value: Any, place: str) -> dict[str, Any]:
    """A mapping; nothing counts as an empty one. Raises SpecError."""
    if not isinstance(value or {}, dict):
        raise _refusal(place, value, accepted="a mapping of names to values")
    return {str(key): item for key, item in (value or {}).items()}


def _dicts(value: Any, place: str) -> list[dict[str, Any]]:
    """A list of mappings; nothing counts as an empty one. Raises SpecError."""
    if value and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        raise _refusal(place, value, accepted="a list of mappings")
    return value or []


def _by_name(value: Any, place: str) -> list[Mapping[str, Any]]:
    """A list of mappings that have names; of mappings with one name the last counts, at the position of the first."""
    found: dict[str, Mapping[str, Any]] = {}
    for item in _dicts(value, place):
        if "name" not in item:
            raise SpecError(f"{place}: an entry has no name; accepted: entries with a name")
        found[str(item["name"])] = item
    return list(found.values())


def _refusal(place: str, value: Any, why: str = "", accepted: str = ACCEPTED) -> SpecError:
    return SpecError(f"{place}: found {str(value)[:60]!r}{why}; accepted: {accepted}")
