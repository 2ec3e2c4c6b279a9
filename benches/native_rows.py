"""What a bench of one native capability hands to `make bench-native`: rows of its one table."""

from dataclasses import dataclass

__all__ = ["NativeRow"]


@dataclass(frozen=True)
class NativeRow:
    """One measure of a capability, beside what `performance.md` asks of it.

    A bench module offers its rows as `native_rows(rounds: int) -> list[NativeRow]`, and checks that outputs
    are equal before it times them.
    """

    capability: str
    measure: str
    result: str
    floor: str = ""
    goal: str = ""
