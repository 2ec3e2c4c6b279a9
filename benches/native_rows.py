"""What a bench of one native capability hands to `make bench-native`: rows of its one table."""

from dataclasses import dataclass

__all__ = ["NativeRow", "Target"]


@dataclass(frozen=True)
class Target:
    """What `performance.md` asks of a measure. A goal below its floor is one that small values reach.

    Attributes:
        floor: What it must not be worse than.
        goal: What is aimed at.
        bound: What keeps it from the goal; shown where the goal is missed.
    """

    floor: float
    goal: float
    bound: str

    def judge(self, value: float) -> str:
        """Say whether goal and floor are reached, and what bounds it if not."""
        sign = -1 if self.goal < self.floor else 1
        if sign * value >= sign * self.goal:
            return "goal reached"
        reached = "floor held" if sign * value >= sign * self.floor else "BELOW THE FLOOR"
        return f"{reached}; {self.bound}"


@dataclass(frozen=True)
class NativeRow:
    """One measure of a capability, beside what is asked of it.

    A bench module offers its rows as `native_rows(rounds: int) -> list[NativeRow]`, and checks that outputs
    are equal before it times them.

    Attributes:
        capability: Whose measure it is.
        measure: What was compared with what.
        result: What is shown of it.
        value: What is judged: times as fast, or per cent of error.
        target: What it is judged by.
    """

    capability: str
    measure: str
    result: str
    value: float = 0.0
    target: Target | None = None

    def cells(self) -> list[str]:
        """Return the row of the table."""
        if self.target is None:
            return [self.capability, self.measure, self.result, "", "", ""]
        bounds = [f"{self.target.floor:g}", f"{self.target.goal:g}"]
        return [self.capability, self.measure, self.result, *bounds, self.target.judge(self.value)]
