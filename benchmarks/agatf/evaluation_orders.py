"""Methods that cut a network into groups, and the exact evaluations that each asks for on its way.

All pick from the same groups (`fusion_space`) and pay for an evaluation once per distinct segment. Whatever a method
has paid for is cut by dynamic programming, so that none suffers from a poor use of what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.agatf.dqn import EPSILON, Agent
from benchmarks.agatf.fusion_game import FusionGame
from benchmarks.agatf.fusion_space import FusionSpace, Nodes
from fadiff_mapper.fusion.segments import runs_in_order
from fadiff_mapper.workload import OperatingPoint

LONGEST = 16
"""Layers of a group at most."""


@dataclass
class Ledger:
    """The groups that a method has paid for.

    Attributes:
        space: The space.
        paid: Numbers of the groups that were evaluated.
        searches: Exact evaluations so far.
        course: (exact evaluations, logarithm of the EDP of the best plan with the groups so far), each plan better
            than those before.
    """

    space: FusionSpace
    paid: set[int] = field(default_factory=set)
    searches: int = 0
    course: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.course.append((0, self.space.log_edp()))

    def known(self) -> dict[Nodes, OperatingPoint]:
        """Every segment whose group was paid for and can run."""
        return {nodes: point for nodes, number in self.space.number.items()
                if number in self.paid and (point := self.space.groups[number].exact)}

    def pay(self, asked: Iterable[Nodes]) -> None:
        """Evaluates the groups of some segments that are not known yet, and notes the best plan."""
        new = {self.space.number[nodes] for nodes in asked if len(nodes) > 1} - self.paid
        if new:
            self.paid |= new
            self.searches += sum(self.space.groups[number].searches for number in new)
            self.note()

    def note(self) -> None:
        """Notes the best plan with the groups so far, if it is better."""
        value = self.space.log_edp(self.space.best_cut(self.known()))
        if value < self.course[-1][1]:
            self.course.append((self.searches, value))


def all_groups(space: FusionSpace) -> Ledger:
    """Dynamic programming over all groups: the optimum."""
    ledger = Ledger(space)
    ledger.pay(space.number)
    return ledger


def all_that_fits(space: FusionSpace) -> tuple[Ledger, float]:
    """Fuses as much as can run, from the front on: AGATF's naive strategy.

    Returns:
        The ledger, and the logarithm of the EDP of the plan, which may be above that of no fusion.
    """
    ledger, plan = Ledger(space), []
    for chain in space.chains:
        position = 0
        while position < len(chain):
            longest = min(LONGEST, len(chain) - position)
            options = (chain[position:position + layers] for layers in range(longest, 0, -1))
            nodes = next(nodes for nodes in options if len(nodes) == 1 or _fits(ledger, nodes))
            if len(nodes) > 1:
                plan.append(nodes)
            position += len(nodes)
    return ledger, plan_log_edp(space, plan)


def _fits(ledger: Ledger, nodes: Nodes) -> bool:
    """Whether a segment can run as a group, found out by evaluating it."""
    if nodes not in ledger.space.number:
        return False
    ledger.pay([nodes])
    return ledger.space.exact(nodes) is not None


def plan_log_edp(space: FusionSpace, plan: list[Nodes]) -> float:
    """Logarithm of the EDP of a plan; where it cannot run in order, its last groups are left out."""
    while not runs_in_order(space.workload, plan):
        plan = plan[:-1]
    return space.log_edp([(nodes, point) for nodes in plan if (point := space.exact(nodes))])


def hopeful(space: FusionSpace, hoped: Mapping[Nodes, OperatingPoint]) -> Ledger:
    """Evaluates the plan that would be best if all predictions held, until it is all exact: the planner's order.

    Args:
        space: The space.
        hoped: Predicted energy and cycles of every segment.
    """
    ledger = Ledger(space)
    while True:
        points = {nodes: point for nodes, point in hoped.items() if space.number[nodes] not in ledger.paid}
        plan = [nodes for nodes, _ in space.best_cut(points | ledger.known())]
        if all(space.number[nodes] in ledger.paid for nodes in plan):
            return ledger
        ledger.pay(plan)


def estimates_of(space: FusionSpace) -> dict[Nodes, OperatingPoint]:
    """Our own estimate of every segment."""
    return {nodes: space.groups[number].estimate for nodes, number in space.number.items()}


def played(agent: Agent, game: FusionGame, episodes: int) -> tuple[Ledger, float]:
    """Lets an agent plan a network: once without random actions, then with them.

    Args:
        agent: The agent; it learns nothing any more.
        game: The network.
        episodes: Episodes with random actions.

    Returns:
        The ledger, and the logarithm of the EDP of the agent's own plan without random actions.
    """
    ledger = Ledger(game.seen.space)
    own = episode_plan(agent, game, 0.0)
    value = plan_log_edp(game.seen.space, [nodes for nodes in own if game.seen.space.exact(nodes)])
    ledger.pay(own)
    for _ in range(episodes):
        ledger.pay(episode_plan(agent, game, EPSILON))
    return ledger, value


def episode_plan(agent: Agent, game: FusionGame, epsilon: float) -> list[Nodes]:
    """The segments of more than one layer that an agent asks for in one episode over the whole network."""
    state, asked = game.start(), []
    while not game.over(state):
        action = agent.act(game.observation(state), game.allowed(state), epsilon, game.predicted(state))
        if action:
            asked.append(game.group_of(state, action))
        state, _ = game.step(state, action)
    return asked


def until(course: Iterable[tuple[int, float]], log_edp: float, part: float = 0.01) -> int | None:
    """Exact evaluations until a plan is within a part of an EDP; None where it never is.

    Args:
        course: As in `Ledger`.
        log_edp: Logarithm of the EDP to come close to.
        part: The part.
    """
    return next((searches for searches, value in course if value <= log_edp + np.log1p(part)), None)
