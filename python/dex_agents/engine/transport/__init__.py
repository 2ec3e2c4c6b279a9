"""gRPC over HTTP/2 on the engine's own event loop, as far as an engine needs it.

`connection` and `http2_stream` speak HTTP/2 (RFC 9113) with `frames` and `hpack` (RFC 7541), `calls` makes
gRPC calls of streams, `listener` accepts connections. Every byte is handled where it arrives: no thread, no
task and no future stands between a frame of a Worker and the decision it leads to. What is called, and what
it answers, is nothing this room knows.
"""
