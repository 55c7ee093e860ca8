"""The rules that corners are built for, each with a function that draws one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from fadiff_mapper.inputs.spec.mapping import Mapping

from . import shapes
from .corner import Corner, CornerLevel
from .drawing import Draft, across, add, attributes, below, blank, built, keeps, receivers
from .networks import with_networks

BOUNDS = (2, 2, 2, 3, 3, 4, 5)
"""Bounds of loops: small, as Timeloop runs two iterations of any loop, and above 2, where these stand for others."""


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        says: The property that its corners share.
        draw: Draws one.
    """

    says: str
    draw: Callable[[random.Random], Corner]


def sliding(rng: random.Random) -> Corner:
    """Several temporal loops outside a tile move one window of it."""
    draft = blank(shapes.any_window(rng), rng.choice((2, 2, 3)))
    outside = rng.randint(1, len(draft.time) - 1)
    scatter(draft, rng, rng.randint(0, 3), range(outside))
    slide(draft, rng, outside)
    return built("sliding", draft, rng)


def links(rng: random.Random) -> Corner:
    """The step of a window is the distance between two receivers, so words are at a neighbour."""
    return built("links", linked(rng), rng, slack=0.3)


def mesh(rng: random.Random) -> Corner:
    """Links on a mesh that is wider than the mapping: receivers stand in other places than the mapping says."""
    draft = linked(rng)
    level = max(range(len(draft.x)), key=lambda index: receivers(draft, index))
    axis = "y" if draft.x[level] else "x"
    for _ in range(rng.randint(1, 2)):
        add(draft, level, axis, rng.choice(draft.names), rng.choice((2, 2, 3)))
    return built("mesh", draft, rng, slack=0.8)


def hops(rng: random.Random) -> Corner:
    """Groups of receivers over both axes, with wires and routers that cost energy."""
    draft = blank(rng.choice((shapes.product(), shapes.any_window(rng))), rng.choice((1, 2, 3)))
    for level in range(len(draft.x)):
        for axis in rng.sample("xxyy", rng.randint(1, 4)):
            add(draft, level, axis, rng.choice(draft.names), rng.choice((2, 2, 3, 4, 5)))
    scatter(draft, rng, rng.randint(0, 4), range(len(draft.time)))
    return built("hops", draft, rng, slack=0.5, wires=0.9)


def sums(rng: random.Random) -> Corner:
    """Partial sums that leave a level and come back, added up on the way or not."""
    draft = blank(rng.choice((shapes.product(), shapes.window(rng), shapes.scattered(rng))), rng.choice((2, 3)))
    output = next(space for space in draft.spaces if space.read_write)
    added = sorted(set(draft.names) - output.dimensions) or list(draft.names)
    scatter(draft, rng, rng.randint(0, 2), range(len(draft.time)))
    for level in range(len(draft.time)):  # sums inside places inside sums
        for names in (added, sorted(output.dimensions), added)[: rng.randint(1, 3)]:
            add(draft, level, "time", rng.choice(names), rng.choice(BOUNDS))
        if rng.random() < 0.5:
            add(draft, level, rng.choice("xy"), rng.choice(added), rng.choice((2, 3)))
    return built("sums", draft, rng)


def scattering(rng: random.Random) -> Corner:
    """An output whose places overlap between tiles and between receivers."""
    draft = blank(shapes.scattered(rng), rng.choice((2, 3)))
    outside = rng.randint(1, len(draft.time) - 1)
    scatter(draft, rng, rng.randint(0, 3), range(outside))
    slide(draft, rng, outside)
    for _ in range(rng.randint(0, 2)):
        add(draft, rng.randrange(len(draft.x)), rng.choice("xy"), rng.choice(draft.names), rng.choice((2, 3, 4)))
    return built("scattering", draft, rng)


def oversubscribed(rng: random.Random) -> Corner:
    """A fan-out with more receivers than there are, made up for by one further out that is not used up."""
    draft = linked(rng) if rng.random() < 0.5 else blank(shapes.any_window(rng), 3)
    inner, outer = sorted(rng.sample(range(len(draft.x)), 2)) if len(draft.x) > 1 else (0, 0)
    for level in (inner, outer):
        add(draft, level, "x", rng.choice(draft.names), rng.choice((2, 4)))
    scatter(draft, rng, rng.randint(0, 3), range(len(draft.time)))
    corner = built("oversubscribed", draft, rng, slack=0)
    return widened(corner, inner, outer) if inner < outer else corner


def widened(corner: Corner, inner: int, outer: int) -> Corner:
    """Half of the inner level's receivers along X moved to the outer level, where they make up for them."""
    (wide, high), (further, deep) = corner.levels[inner].fan, corner.levels[outer].fan
    if wide < 4 and (wide, high) != (2, 2):  # a fan-out of 1 x 1 takes no spatial loops at all
        return corner
    levels = list(corner.levels)
    levels[inner] = replace(levels[inner], fan=(-(-wide // 2), high))
    levels[outer] = replace(levels[outer], fan=(2 * further, deep))
    return replace(corner, levels=tuple(levels))


def bypassing(rng: random.Random) -> Corner:
    """Tensors that pass by chains of levels, the outermost one now and then included."""
    draft = linked(rng, rng.choice((4, 5))) if rng.random() < 0.5 else blank(shapes.any_window(rng), 5)
    scatter(draft, rng, rng.randint(2, 5), range(len(draft.time)))
    for level in range(len(draft.x)):
        if rng.random() < 0.4:
            add(draft, level, rng.choice("xy"), rng.choice(draft.names), rng.choice((2, 2, 3)))
    return built("bypassing", draft, rng, keep=keeps(draft, rng, rng.choice((0.2, 0.5)), 0.8))


def sharing(rng: random.Random) -> Corner:
    """Several dimensions of one window spread over receivers, so that some of them want the same words."""
    draft = blank(shapes.any_window(rng), rng.choice((1, 2, 2)))
    level = rng.randrange(len(draft.x))
    scatter(draft, rng, rng.randint(0, 2), range(level))
    term_names = [name for name, _ in rng.choice(shapes.windows_of(draft.spaces))]
    for name in rng.sample(term_names, len(term_names)):
        add(draft, level, rng.choice("xy"), name, rng.choice((2, 3, 4, 5)))
    slide(draft, rng, level)
    return built("sharing", draft, rng)


def tiny(rng: random.Random) -> Corner:
    """Tensors of a few words; levels and even whole nests without a loop."""
    draft = blank(rng.choice((shapes.product(), shapes.any_window(rng), shapes.scattered(rng))), rng.randint(1, 4))
    for _ in range(rng.randint(0, 3)):
        add(draft, rng.randrange(len(draft.time)), rng.choice(("time", "time", "x", "y")), rng.choice(draft.names), 2)
    return built("tiny", draft, rng, keep=keeps(draft, rng, 0.7, 0.9))


def switches(rng: random.Random) -> Corner:
    """Windows and links with some kinds of reuse switched off for some tensors."""
    corner = built("switches", linked(rng), rng)
    names, levels = [space.name for space in corner.spaces], []
    for level, machine in zip(corner.mapping.levels, corner.levels, strict=True):
        in_time, in_space = (frozenset(name for name in names if rng.random() < 0.3) for _ in range(2))
        levels.append(replace(level, no_temporal_reuse=in_time,
                              no_multicast=in_space if machine.fan != (1, 1) else frozenset()))
    for index in range(len(levels)):
        unlinked, read, passing = (frozenset(name for name in names if rng.random() < 0.2) for _ in range(3))
        levels[index] = replace(levels[index], rmw_first_update=read, no_coalesce=passing,
                                no_link_transfer=unlinked if corner.levels[index].fan != (1, 1) else frozenset())
    return replace(corner, mapping=Mapping(tuple(levels)))


def limits(rng: random.Random) -> Corner:
    """Machines that are just large enough, or a word, a receiver or a tensor short."""
    corner = built("limits", linked(rng), rng, slack=0)
    at = rng.randrange(len(corner.levels))
    level, fault = corner.levels[at], rng.choice(("none", "word", "copies", "share", "receiver", "nowhere"))
    if fault == "nowhere":
        lost = rng.choice(corner.spaces).name
        return replace(corner, mapping=Mapping(tuple(
            replace(one, keep=one.keep - {lost}) for one in corner.mapping.levels)))
    if fault == "receiver":
        shorter = (level.fan[0] - 1, level.fan[1]) if level.fan[0] > level.fan[1] else (level.fan[0], level.fan[1] - 1)
        return with_level(corner, at, replace(level, fan=shorter)) if max(shorter) > 1 <= min(shorter) else corner
    if fault == "none" or level.entries is None:
        return corner
    changes = {"word": replace(level, entries=max(1, level.entries - 1)),
               "copies": replace(level, entries=2 * level.entries - rng.randint(0, 1),
                                 attributes=level.attributes | {"multiple_buffering": 2}),
               "share": replace(level, attributes=level.attributes | {"min_utilization": rng.choice((0.5, 0.98, 1))})}
    return with_level(corner, at, changes[fault])


def with_level(corner: Corner, at: int, level: CornerLevel) -> Corner:
    """The corner with another storage level at an index."""
    return replace(corner, levels=(*corner.levels[:at], level, *corner.levels[at + 1:]))


def clusters(rng: random.Random) -> Corner:
    """Memories that serve several instances with one access."""
    corner = built("clusters", linked(rng), rng, slack=0.5)
    instances, levels = 1, list[CornerLevel]()
    for level in reversed(corner.levels):
        shared = rng.choice([size for size in (1, 2, 3, 4, 6) if instances % size == 0])
        levels.insert(0, replace(level, attributes=attributes(rng, 0.3) | {
            "cluster_size": shared, "addr_gen_energy": rng.choice((0, 0.25))}))
        instances *= level.fan[0] * level.fan[1]
    return replace(corner, levels=tuple(levels))


def scatter(draft: Draft, rng: random.Random, count: int, levels: range) -> None:
    """Adds temporal loops of any dimension at some levels."""
    for _ in range(count if levels else 0):
        add(draft, rng.choice(levels), "time", rng.choice(draft.names), rng.choice(BOUNDS))


def slide(draft: Draft, rng: random.Random, level: int) -> None:
    """Adds two to four temporal loops outside the fan-out of a level, most of them of one window.

    Orders in which a step of an outer loop cancels the steps inside it, or repeats that of the innermost one, are
    preferred: elsewhere every step brings a whole tile.
    """
    terms = dict(rng.choice(shapes.windows_of(draft.spaces)))
    where = [rng.randint(level, len(draft.time) - 1) for _ in range(rng.randint(2, 4))]
    step = {name: coefficient * across(draft, level)[name] for name, coefficient in terms.items()}
    travelled, first = 0, 0
    for at in sorted(where):
        names = [name for name, length in step.items() if length - travelled in (0, first)]
        name = rng.choice(names if names and rng.random() < 0.7 else [*terms, rng.choice(draft.names)])
        bound = rng.choice(BOUNDS)
        if add(draft, at, "time", name, bound) and name in step:
            first, travelled = first or step[name], travelled + step[name]
            step[name] *= bound


def linked(rng: random.Random, levels: int = 0) -> Draft:
    """A draft in which the innermost temporal loop moves a window by the distance between two receivers.

    Args:
        rng: The source of the draws.
        levels: Number of storage levels; 0 draws it.
    """
    draft = blank(shapes.any_window(rng), levels or rng.choice((1, 2, 2, 3)))
    level = rng.randrange(len(draft.x))
    scatter(draft, rng, rng.randint(0, 2), range(level))
    terms = dict(rng.choice(shapes.windows_of(draft.spaces)))
    reach = {name: coefficient * below(draft, level)[name] for name, coefficient in terms.items()}
    pairs = [(a, b) for a in terms for b in terms if a != b and reach[a] == reach[b]]
    spread, moving = rng.choice(pairs) if pairs else rng.sample(list(terms), 2)
    add(draft, level, rng.choice("xy"), spread, rng.choice((2, 3, 3, 4, 8)))
    add(draft, level, "time", moving, rng.choice(BOUNDS))
    if rng.random() < 0.3:
        add(draft, level, rng.choice("xy"), rng.choice(draft.names), rng.choice((2, 3)))
    slide(draft, rng, level)
    return draft


def networks(rng: random.Random) -> Corner:
    """Levels with networks of their own, for each direction or for both."""
    draw = rng.choice((links, mesh, hops, sums, scattering, bypassing, sharing, tiny))
    return with_networks(draw(rng), rng)


RULES = {name: Rule((draw.__doc__ or "").split("\n")[0].rstrip("."), draw) for name, draw in (
    ("sliding", sliding), ("links", links), ("mesh", mesh), ("hops", hops), ("sums", sums), ("scattering", scattering),
    ("oversubscribed", oversubscribed), ("bypassing", bypassing), ("sharing", sharing), ("tiny", tiny),
    ("switches", switches), ("limits", limits), ("clusters", clusters), ("networks", networks))}
"""Rule -> what its corners have in common, and the function that draws one."""
APART = ("networks",)
"""Rules that take no turn, so that the corner with a number stays what it was before they came."""


def corner(number: int, seed: int) -> Corner:
    """The corner with a number, from 0; the rules take turns.

    Args:
        number: A larger list begins with the corners of a smaller one.
        seed: Of the draws.
    """
    turns = [name for name in RULES if name not in APART]
    name = turns[number % len(turns)]
    return RULES[name].draw(random.Random(f"{seed}/{number}"))
