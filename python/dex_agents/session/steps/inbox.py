"""The inbox as one Step or RPC has loaded it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dex import ChannelMessage, Context

from dex_agents.session.persistence import INBOX
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.signals import InboxItem

__all__ = ["Inbox", "load_inbox"]


@dataclass(frozen=True)
class Inbox:
    """What waits in the inbox, each kind in its order.

    Attributes:
        queued: Messages that wait for a turn of their own.
        steering: Messages that are to join the running turn.
        settled: Outcomes that the model is to learn.
        tokens: Of the running turn; at most one.
    """

    queued: tuple[ChannelMessage[InboxItem], ...] = ()
    steering: tuple[ChannelMessage[InboxItem], ...] = ()
    settled: tuple[ChannelMessage[InboxItem], ...] = ()
    tokens: tuple[ChannelMessage[InboxItem], ...] = ()

    @property
    def waits_for_turn(self) -> tuple[ChannelMessage[InboxItem], ...]:
        """The messages in the order in which turns take them.

        A steering message that its turn did not take was meant to be read before anything queued.
        """
        return (*self.steering, *self.queued)

    @property
    def messages(self) -> tuple[QueuedMessage, ...]:
        """The values of `waits_for_turn`."""
        return tuple(item.value.message for item in self.waits_for_turn if item.value.message is not None)

    def end_turn(self, context: Context) -> None:
        """Remove the running turn's token, in the commit that ends or cancels it."""
        _delete(context, self.tokens)

    def take_joining(self, context: Context, *, settled: bool) -> Inbox:
        """Remove what joins the turn, in the commit that stores it.

        Args:
            context: The Step attempt.
            settled: Whether the model learns the settled outcomes too.

        Returns:
            What is left.
        """
        _delete(context, self.steering)
        if not settled:
            return replace(self, steering=())
        _delete(context, self.settled)
        return replace(self, steering=(), settled=())

    def take_all(self, context: Context) -> None:
        """Remove everything, in the commit that ends the session."""
        _delete(context, (*self.queued, *self.steering, *self.settled, *self.tokens))


def load_inbox(context: Context) -> Inbox:
    """Return what waits; the inbox must be loaded."""
    queued: list[ChannelMessage[InboxItem]] = []
    steering: list[ChannelMessage[InboxItem]] = []
    settled: list[ChannelMessage[InboxItem]] = []
    tokens: list[ChannelMessage[InboxItem]] = []
    for item in INBOX.pending_messages(context):
        value = item.value
        if value.message is not None:
            (steering if value.message.steering else queued).append(item)
        elif value.settled is not None:
            settled.append(item)
        else:
            tokens.append(item)
    return Inbox(tuple(queued), tuple(steering), tuple(settled), tuple(tokens))


def _delete(context: Context, items: tuple[ChannelMessage[InboxItem], ...]) -> None:
    for item in items:
        INBOX.delete(context, item.message_id)
