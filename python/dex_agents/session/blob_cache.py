"""Large values, fetched once and kept in memory.

The SDK asks for all values that it misses in one reply, which a Dex client can only receive up to 4 MiB.
Twenty large tool results would exceed that and the session could never go on. So this cache never misses: it
fetches each value by itself, over a channel without that limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import grpc
from dex import BlobCacheConfig
from dex.dexpb import dex_pb2 as pb

__all__ = ["FetchingBlobCache"]

_FETCH_SECONDS: Final = 10.0


class FetchingBlobCache:
    """A `dex.BlobCache` that reads through to the engine and keeps up to `max_bytes` in memory.

    Values behind an ID never change, so nothing is ever out of date.
    """

    def __init__(self, server_address: str, max_bytes: int = 64 * 1024 * 1024) -> None:
        """Create the cache; nothing is connected before the first miss.

        Args:
            server_address: The engine, as the SDK names it.
            max_bytes: Upper bound of what is kept; the least recently used goes first.
        """
        self._config = BlobCacheConfig(directory="memory", max_bytes=max_bytes)
        self._channel = grpc.insecure_channel(
            server_address, options=[("grpc.max_receive_message_length", -1)]
        )
        self._load_blobs = self._channel.unary_unary(
            f"/{pb.DESCRIPTOR.services_by_name['FlowService'].full_name}/LoadBlobs",
            request_serializer=pb.LoadBlobsRequest.SerializeToString,
            response_deserializer=pb.LoadBlobsResponse.FromString,
        )
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def config(self) -> BlobCacheConfig:
        """The bound; the directory is only a name."""
        return self._config

    def get(self, blob_id: str) -> bytes | None:
        """Return a value, from memory or from the engine; `None` when the engine does not have it."""
        with self._lock:
            kept = self._kept.get(blob_id)
            if kept is not None:
                self._kept.move_to_end(blob_id)
                return kept
        try:
            fetched = self._fetch(blob_id)
        except grpc.RpcError:
            # The engine is away; the SDK asks for it next and tells the caller.
            return None
        if fetched is not None:
            self.put(blob_id, fetched)
        return fetched

    def put(self, blob_id: str, payload: bytes) -> bool:
        """Keep a value, unless it alone exceeds the bound."""
        if len(payload) > self._config.max_bytes:
            return False
        with self._lock:
            self._forget(blob_id)
            self._kept[blob_id] = payload
            self._bytes += len(payload)
            while self._bytes > self._config.max_bytes:
                self._forget(next(iter(self._kept)))
        return True

    def delete(self, blob_id: str) -> None:
        """Forget one value."""
        with self._lock:
            self._forget(blob_id)

    def delete_all(self) -> None:
        """Forget every value."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def close(self) -> None:
        """Close the connection; repeated calls are safe."""
        self._channel.close()
        self.delete_all()

    def _forget(self, blob_id: str) -> None:
        gone = self._kept.pop(blob_id, None)
        if gone is not None:
            self._bytes -= len(gone)

    def _fetch(self, key: str) -> bytes | None:
        # The SDK's key is `<length of the Flow ID>:<Flow ID><blob ID>`; it does not say what kind of value it
        # is.
        length, _, rest = key.partition(":")
        flow_id, blob_id = rest[: int(length)], rest[int(length) :]
        as_object = pb.Value(internal_blob_id_for_obj_value=blob_id)
        found = self._load(flow_id, blob_id, as_object)
        if found is not None and found.HasField("obj_value"):
            return found.obj_value.SerializeToString()
        found = self._load(flow_id, blob_id, pb.Value(internal_blob_id_for_string_value=blob_id))
        return None if found is None else found.string_value.encode()

    def _load(self, flow_id: str, blob_id: str, value: pb.Value) -> pb.Value | None:
        request = pb.LoadBlobsRequest(entries=[pb.LoadBlobRequestEntry(flow_id=flow_id, blob_value=value)])
        reply = self._load_blobs(request, timeout=_FETCH_SECONDS)
        return reply.values.get(blob_id)
