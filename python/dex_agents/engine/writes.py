"""Attribute writes, publications and deletions: the parts of a result that only change data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument, message_not_found
from dex_agents.engine.index_values import build_index_contents
from dex_agents.engine.journal import Table
from dex_agents.engine.state import MESSAGE_COUNTER, IndexEntry, Message, Run
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import is_null, read_blob_id, validate_inline_size, validate_value


def validate_attribute_writes(writes: Iterable[pb.AttributeWrite], unit: Unit) -> None:
    """Require writes that can be applied as a whole.

    Raises:
        ServiceError: Two writes share a key, a value is unusable, a hard-delete value is too large to stay
            inline, or a search key changes its type.
    """
    seen: set[str] = set()
    for write in writes:
        if not write.key:
            raise invalid_argument("attributes", "a key must not be empty")
        if write.key in seen:
            raise invalid_argument("attributes", f"the key {write.key!r} is written twice")
        seen.add(write.key)
        validate_value(write.value, f"attribute {write.key!r}")
        if write.is_hard_delete_on_null:
            validate_inline_size(write.value, f"attribute {write.key!r}")
        if write.HasField("index_config") and write.index_config.enable:
            index_key = write.index_config.index_key or write.key
            validate_index_type(unit.index_types, index_key, write.index_config.type)


def validate_index_type(index_types: dict[str, int], index_key: str, index_type: int) -> None:
    """Require a type that a search key has had since it was first used.

    Raises:
        ServiceError: The type is unset or another one.
    """
    if index_type == pb.INDEX_TYPE_UNSPECIFIED:
        raise invalid_argument("index_config", f"the search key {index_key!r} has no type")
    known = index_types.get(index_key)
    if known is not None and known != index_type:
        raise invalid_argument(
            "index_config",
            f"the search key {index_key!r} is {pb.IndexType.Name(known)} and cannot change its type",
        )


def apply_attribute_writes(run: Run, writes: Iterable[pb.AttributeWrite], unit: Unit) -> None:
    """Set and delete Attributes; the writes must be valid."""
    for write in writes:
        key = write.key
        previous = run.find_attribute(key)
        if previous is not None:
            unit.discard(previous.blob_id)
        if is_null(write.value):
            _delete_attribute(run, key, unit)
        elif write.is_hard_delete_on_null:
            run.put_attribute(key, write.value, is_secret=True)
            unit.put(Table.SECRET_ATTRIBUTE, (run.number, key), write.value.SerializeToString())
        else:
            value = unit.store_value(write.value)
            run.put_attribute(key, value, is_secret=False)
            unit.put(Table.ATTRIBUTE, (run.number, key), value.SerializeToString())
        if write.HasField("index_config") and write.index_config.enable:
            _apply_index(run, write, unit)


def apply_publications(run: Run, messages: Iterable[pb.ChannelMessage], unit: Unit) -> None:
    """Append messages to their Channels, in order."""
    is_changed = False
    for published in messages:
        is_changed = True
        run.last_message += 1
        message = Message(run.last_message, f"{run.run_id[:8]}{run.last_message:016x}", pb.Value())
        message.value.CopyFrom(unit.store_value(published.value))
        run.channels.setdefault(published.channel_name, deque()).append(message)
        unit.put(
            Table.CHANNEL_MESSAGE,
            (run.number, published.channel_name, message.sequence),
            message.message_id,
            message.value.SerializeToString(),
        )
    if is_changed:
        unit.put(Table.COUNTER, (run.number, MESSAGE_COUNTER), run.last_message)


def validate_publications(messages: Iterable[pb.ChannelMessage]) -> None:
    """Require messages that can be published.

    Raises:
        ServiceError: A Channel has no name or a value is unusable.
    """
    for message in messages:
        if not message.channel_name:
            raise invalid_argument("publish_to_channel", "a channel name must not be empty")
        validate_value(message.value, f"message for channel {message.channel_name!r}")


def validate_deletions(run: Run, deletions: Iterable[pb.ChannelMessageDeletion]) -> None:
    """Require that every message to delete still waits in its Channel.

    Raises:
        ServiceError: One was consumed, deleted or never existed.
    """
    for deletion in deletions:
        waiting = run.channels.get(deletion.channel_name, ())
        if all(message.message_id != deletion.message_id for message in waiting):
            raise message_not_found(deletion.channel_name, deletion.message_id)


def apply_deletions(run: Run, deletions: Iterable[pb.ChannelMessageDeletion], unit: Unit) -> None:
    """Delete waiting messages; a missing one is passed over."""
    for deletion in deletions:
        waiting = run.channels.get(deletion.channel_name, deque[Message]())
        found = next((each for each in waiting if each.message_id == deletion.message_id), None)
        if found is not None:
            waiting.remove(found)
            unit.delete(Table.CHANNEL_MESSAGE, (run.number, deletion.channel_name, found.sequence))
            unit.discard(read_blob_id(found.value))
            if not waiting:
                del run.channels[deletion.channel_name]


def take_messages(run: Run, channel: str, count: int, unit: Unit) -> list[Message]:
    """Consume the oldest messages of a Channel."""
    waiting = run.channels.get(channel)
    if waiting is None:
        return []
    taken = [waiting.popleft() for _ in range(count)]
    for message in taken:
        unit.delete(Table.CHANNEL_MESSAGE, (run.number, channel, message.sequence))
    if not waiting:
        del run.channels[channel]
    return taken


def _delete_attribute(run: Run, key: str, unit: Unit) -> None:
    removed = run.pop_attribute(key)
    if removed is None:
        return
    if removed.is_secret:
        unit.deletes_secret = True
        unit.delete(Table.SECRET_ATTRIBUTE, (run.number, key))
    else:
        unit.delete(Table.ATTRIBUTE, (run.number, key))


def _apply_index(run: Run, write: pb.AttributeWrite, unit: Unit) -> None:
    index_type = int(write.index_config.type)
    index_key = write.index_config.index_key or write.key
    if index_key not in unit.index_types:
        unit.index_types[index_key] = index_type
        unit.put(Table.INDEX_TYPE, (index_key,), index_type)
    entry = run.indexes.get(index_key)
    if is_null(write.value) and entry is not None and entry.attribute != write.key:
        return
    contents = build_index_contents(index_type, write.value)
    if entry is not None:
        unit.discard(entry.blob_id)
    shown = write.value if is_null(write.value) else unit.store_value(write.value)
    stored = shown.SerializeToString()
    # The first row also carries the value that search results show, even if nothing in it is searchable.
    rows = contents or ([] if is_null(write.value) else [None])
    for position, content in enumerate(rows):
        unit.put(
            Table.INDEX_VALUE,
            (run.number, index_key, position),
            write.key,
            content,
            stored if position == 0 else None,
        )
    for position in range(len(rows), 0 if entry is None else entry.rows):
        unit.delete(Table.INDEX_VALUE, (run.number, index_key, position))
    if rows:
        run.indexes[index_key] = IndexEntry(write.key, len(rows), read_blob_id(shown))
    else:
        run.indexes.pop(index_key, None)
